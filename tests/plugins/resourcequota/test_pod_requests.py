"""
The requests and limits of a pod: containers, sidecars, resizes and the pod level.

The numbers are those of release 1.36 (section 19): the maximum of what is specified, allocated and
in effect is taken for each container before anything is summed. Amounts are written as
`requests / limits`: `cpu=1 memory=1Gi / cpu=2`.
"""

import pytest
from plugins.resourcequota.quota_objects import Manifest, Namespace, amounts, both, box, nano, pod
from plugins.tables import row

FOUR = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def sidecar(text: str) -> Manifest:
    """Return an init container that stays."""
    return box(text, restartPolicy="Always")


def seen(text: str = "", *, name: str = "c0", allocated: str = "") -> Manifest:
    """Return the status of a container: what is in effect, and what is allocated."""
    given = {"allocatedResources": amounts(allocated)} if allocated else {}
    return {"name": name, "resources": both(text), **given}


def resize(*reasons: str) -> list[Manifest]:
    """Return the conditions of resizes that are pending."""
    return [{"type": "PodResizePending", "status": "True", "reason": each} for each in reasons]


def check(obj: Manifest, expected: str) -> None:
    """Compare the numbers of a pod; those not named are 0."""
    wanted = {
        f"{kind}.{name}": amount
        for kind, named in both(expected).items()
        for name, amount in named.items()
    }
    names = {**dict.fromkeys(FOUR, "0"), **wanted}
    assert Namespace(obj).used(*names) == nano(names)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T32: an init container beside what follows it",
            pod(box("cpu=100m memory=1Gi"), box("cpu=200m"), init=[box("cpu=1 memory=512Mi")]),
            "cpu=1 memory=1Gi",
        ),
        row(
            "RQ-T33: a sidecar before and one after an init container",
            pod(box("cpu=1"), init=[sidecar("cpu=1"), box("cpu=3"), sidecar("cpu=2")]),
            "cpu=4",
        ),
        row(
            "RQ-T34: both sidecars before it",
            pod(box("cpu=1"), init=[sidecar("cpu=1"), sidecar("cpu=2"), box("cpu=5")]),
            "cpu=8",
        ),
        row(
            "the highest of several init containers",
            pod(init=[box("cpu=2"), box("memory=1Gi cpu=1")]),
            "cpu=2 memory=1Gi",
        ),
        row(
            "limits go the same way (RQ-120)",
            pod(box("/ cpu=1"), init=[sidecar("/ cpu=1"), box("/ cpu=5 memory=1Gi")]),
            "/ cpu=6 memory=1Gi",
        ),
        row(
            "a restart policy other than Always makes no sidecar",
            pod(box("cpu=1"), init=[box("cpu=3", restartPolicy="OnFailure")]),
            "cpu=3",
        ),
    ],
)
def test_the_maximum_over_the_lifetime_counts(obj: Manifest, expected: str) -> None:
    """Init containers run one by one with earlier sidecars, then all others (RQ-116)."""
    check(obj, expected)


def with_spec(*containers: Manifest, resources: str = "", overhead: str = "") -> Manifest:
    """Return a pod with resources of its own and an overhead."""
    spec = {"resources": both(resources)} if resources else {}
    return pod(*containers, spec={**spec, "overhead": amounts(overhead)})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T35, RQ-127: overhead is added, and to limits that are there",
            with_spec(box("cpu=500m / cpu=1"), overhead="cpu=250m memory=120Mi"),
            "cpu=750m memory=120Mi / cpu=1250m",
        ),
        row(
            "RQ-T36, RQ-127: a limit of 0 is none",
            with_spec(box("cpu=0 / cpu=0"), overhead="cpu=250m"),
            "cpu=250m",
        ),
        row(
            "RQ-T42: with overhead",
            with_spec(
                box("cpu=500m memory=1Gi ephemeral-storage=1Gi / cpu=1 memory=2Gi"),
                resources="cpu=2 / memory=4Gi",
                overhead="cpu=250m memory=100Mi",
            ),
            "cpu=2250m memory=1124Mi ephemeral-storage=1Gi / cpu=1250m memory=4196Mi",
        ),
        row(
            "RQ-T43: even if it is less",
            with_spec(box("cpu=3"), box("cpu=1"), resources="cpu=1"),
            "cpu=1",
        ),
        row(
            "RQ-T44: not of an unsupported name",
            with_spec(box("ephemeral-storage=1Gi"), resources="ephemeral-storage=5Gi"),
            "ephemeral-storage=1Gi",
        ),
        row(
            "RQ-123: huge pages are supported",
            with_spec(box("hugepages-2Mi=4Mi"), resources="hugepages-2Mi=8Mi"),
            "hugepages-2Mi=8Mi",
        ),
        row(
            "RQ-T50: its status is not looked at (RQ-126)",
            pod(
                spec={"resources": both("memory=2Gi")},
                allocatedResources={"memory": "8Gi"},
                resources={"requests": {"memory": "9Gi"}},
            ),
            "memory=2Gi",
        ),
    ],
)
def test_the_pod_level_has_precedence_over_containers(obj: Manifest, expected: str) -> None:
    """Supported names replace the sums of the containers (RQ-123, RQ-124, RQ-125)."""
    check(obj, expected)


UP = seen("cpu=1 / cpu=2", allocated="cpu=1")
BIG = box("cpu=20 / cpu=40")
INFEASIBLE: Manifest = {"conditions": resize("Infeasible")}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row("RQ-T45: up", pod(box("cpu=2 / cpu=4"), statuses=[UP]), "cpu=2 / cpu=4"),
        row("RQ-T46: infeasible", pod(BIG, statuses=[UP], **INFEASIBLE), "cpu=1 / cpu=2"),
        row(
            "RQ-T47: deferred",
            pod(BIG, statuses=[UP], conditions=resize("Deferred")),
            "cpu=20 / cpu=40",
        ),
        row(
            "RQ-T48: down",
            pod(box("cpu=1"), statuses=[seen("cpu=3", allocated="cpu=2")]),
            "cpu=3",
        ),
        row(
            "allocated alone is highest",
            pod(box("cpu=1"), statuses=[seen("cpu=1", allocated="cpu=2 memory=5")]),
            "cpu=2 memory=5",
        ),
        row("limits in effect", pod(box("/ cpu=1"), statuses=[seen("/ cpu=2")]), "/ cpu=2"),
        row(
            "the first condition of its type decides",
            pod(box("cpu=20"), statuses=[UP], conditions=resize("Deferred", "Infeasible")),
            "cpu=20 / cpu=2",
        ),
        row("a status with empty resources", pod(BIG, statuses=[seen()], **INFEASIBLE), ""),
        row(
            "a sidecar has a status as well",
            pod(
                box("cpu=1"),
                init=[sidecar("cpu=1")],
                initContainerStatuses=[seen("cpu=3", name="i0")],
            ),
            "cpu=4",
        ),
        row(
            "section 19: that of an init container that ends is ignored",
            pod(init=[box("cpu=1")], initContainerStatuses=[seen("cpu=3", name="i0")]),
            "cpu=1",
        ),
        row(
            "RQ-117: resizes cross, and 1.36 sums the maxima",
            pod(box("cpu=1"), box("cpu=4"), statuses=[seen("cpu=3"), seen("cpu=2", name="c1")]),
            "cpu=7",
        ),
        row(
            "RQ-118, section 19: one without a status counts with its spec",
            pod(
                box("cpu=20"),
                box("cpu=5"),
                statuses=[seen("cpu=1", allocated="cpu=2")],
                **INFEASIBLE,
            ),
            "cpu=7",
        ),
        row(
            "RQ-128: node resources of claims are in no quota",
            pod(
                box("cpu=1"),
                nodeAllocatableResourceClaimStatuses=[
                    {"resourceClaimName": "x", "resources": {"cpu": 5}}
                ],
            ),
            "cpu=1",
        ),
    ],
)
def test_a_resize_counts_with_its_maximum(obj: Manifest, expected: str) -> None:
    """Requested, allocated or in effect; not if infeasible (RQ-112, RQ-113, RQ-114, RQ-121)."""
    check(obj, expected)


@pytest.mark.parametrize("reasons", [[], ["Deferred"], ["Infeasible"]], ids=["none", "def", "inf"])
@pytest.mark.parametrize("statuses", [[{"name": "c0", "allocatedResources": {"cpu": 2}}], []])
def test_a_status_without_resources_is_ignored(
    reasons: list[str], statuses: list[Manifest]
) -> None:
    """Release 1.36 takes the spec then, whatever is allocated or infeasible (RQ-T49)."""
    obj = pod(box("cpu=1 memory=1Gi"), statuses=statuses, conditions=resize(*reasons))
    check(obj, "cpu=1 memory=1Gi")
