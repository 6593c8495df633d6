"""
The requests and limits of a pod: containers, sidecars, resizes and the pod level.

The numbers are those of release 1.36 (section 19): the maximum of what is specified, allocated and
in effect is taken for each container before anything is summed.
"""

from typing import Any

import pytest
from plugins.resourcequota.quota_objects import (
    Manifest,
    Namespace,
    container,
    nano,
    pod,
    resize,
    status,
)

FOUR = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
SIDECAR_1 = container({"cpu": 1}, always=True)
SIDECAR_2 = container({"cpu": 2}, always=True)
INFEASIBLE, DEFERRED = resize("Infeasible"), resize("Deferred")


def row(case: str, obj: Manifest, **expected: Any) -> Any:
    """Return one row of a table: a pod and its numbers, with `_` for `.` in their names."""
    return pytest.param(obj, {k.replace("_", "."): v for k, v in expected.items()}, id=case)


def check(obj: Manifest, expected: dict[str, Any]) -> None:
    """Compare the numbers of a pod; those not named are 0."""
    names = {**dict.fromkeys(FOUR, 0), **expected}
    assert Namespace(obj).used(*names) == nano(names)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T32: an init container beside what follows it",
            pod(
                container({"cpu": "100m", "memory": "1Gi"}),
                container({"cpu": "200m"}),
                init=[container({"cpu": 1, "memory": "512Mi"})],
            ),
            requests_cpu=1,
            requests_memory="1Gi",
        ),
        row(
            "RQ-T33: a sidecar before and one after an init container",
            pod(container({"cpu": 1}), init=[SIDECAR_1, container({"cpu": 3}), SIDECAR_2]),
            requests_cpu=4,
        ),
        row(
            "RQ-T34: both sidecars before it",
            pod(container({"cpu": 1}), init=[SIDECAR_1, SIDECAR_2, container({"cpu": 5})]),
            requests_cpu=8,
        ),
        row(
            "the highest of several init containers",
            pod(init=[container({"cpu": 2}), container({"memory": "1Gi", "cpu": 1})]),
            requests_cpu=2,
            requests_memory="1Gi",
        ),
        row(
            "limits go the same way (RQ-120)",
            pod(
                container(limits={"cpu": 1}),
                init=[
                    container(limits={"cpu": 1}, always=True),
                    container(limits={"cpu": 5, "memory": "1Gi"}),
                ],
            ),
            limits_cpu=6,
            limits_memory="1Gi",
        ),
        row(
            "a restart policy other than Always makes no sidecar",
            pod(
                container({"cpu": 1}), init=[container({"cpu": 3}) | {"restartPolicy": "OnFailure"}]
            ),
            requests_cpu=3,
        ),
    ],
)
def test_the_maximum_over_the_lifetime_counts(obj: Manifest, expected: dict[str, Any]) -> None:
    """Init containers run one by one with earlier sidecars, then all others (RQ-116)."""
    check(obj, expected)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T35: added, and to limits that are there",
            pod(
                container({"cpu": "500m"}, {"cpu": 1}),
                spec={"overhead": {"cpu": "250m", "memory": "120Mi"}},
            ),
            requests_cpu="750m",
            requests_memory="120Mi",
            limits_cpu="1250m",
        ),
        row(
            "RQ-T36: a limit of 0 is none",
            pod(container({"cpu": 0}, {"cpu": 0}), spec={"overhead": {"cpu": "250m"}}),
            requests_cpu="250m",
        ),
    ],
)
def test_overhead_is_added(obj: Manifest, expected: dict[str, Any]) -> None:
    """To every request, and to those limits that exist and are not 0 (RQ-127)."""
    check(obj, expected)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T42: with overhead",
            pod(
                container(
                    {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
                    {"cpu": 1, "memory": "2Gi"},
                ),
                spec={
                    "resources": {"requests": {"cpu": 2}, "limits": {"memory": "4Gi"}},
                    "overhead": {"cpu": "250m", "memory": "100Mi"},
                },
            ),
            requests_cpu="2250m",
            requests_memory="1124Mi",
            limits_cpu="1250m",
            limits_memory="4196Mi",
            **{"requests.ephemeral-storage": "1Gi"},
        ),
        row(
            "RQ-T43: even if it is less",
            pod(
                container({"cpu": 3}),
                container({"cpu": 1}),
                spec={"resources": {"requests": {"cpu": 1}}},
            ),
            requests_cpu=1,
        ),
        row(
            "RQ-T44: not of an unsupported name",
            pod(
                container({"ephemeral-storage": "1Gi"}),
                spec={"resources": {"requests": {"ephemeral-storage": "5Gi"}}},
            ),
            **{"requests.ephemeral-storage": "1Gi"},
        ),
        row(
            "huge pages are supported (RQ-123)",
            pod(
                container({"hugepages-2Mi": "4Mi"}),
                spec={"resources": {"requests": {"hugepages-2Mi": "8Mi"}}},
            ),
            **{"requests.hugepages-2Mi": "8Mi"},
        ),
        row(
            "RQ-T50: its status is not looked at (RQ-126)",
            pod(
                spec={"resources": {"requests": {"memory": "2Gi"}}},
                allocatedResources={"memory": "8Gi"},
                resources={"requests": {"memory": "9Gi"}},
            ),
            requests_memory="2Gi",
        ),
    ],
)
def test_the_pod_level_has_precedence_over_containers(
    obj: Manifest, expected: dict[str, Any]
) -> None:
    """Supported names replace the sums of the containers (RQ-123, RQ-124, RQ-125)."""
    check(obj, expected)


UP = status(requests={"cpu": 1}, limits={"cpu": 2}, allocated={"cpu": 1})


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        row(
            "RQ-T45: up",
            pod(container({"cpu": 2}, {"cpu": 4}), statuses=[UP]),
            requests_cpu=2,
            limits_cpu=4,
        ),
        row(
            "RQ-T46: infeasible",
            pod(container({"cpu": 20}, {"cpu": 40}), statuses=[UP], conditions=[INFEASIBLE]),
            requests_cpu=1,
            limits_cpu=2,
        ),
        row(
            "RQ-T47: deferred",
            pod(container({"cpu": 20}, {"cpu": 40}), statuses=[UP], conditions=[DEFERRED]),
            requests_cpu=20,
            limits_cpu=40,
        ),
        row(
            "RQ-T48: down",
            pod(
                container({"cpu": 1}),
                statuses=[status(requests={"cpu": 3}, allocated={"cpu": 2})],
            ),
            requests_cpu=3,
        ),
        row(
            "allocated alone is highest",
            pod(
                container({"cpu": 1}),
                statuses=[status(requests={"cpu": 1}, allocated={"cpu": 2, "memory": 5})],
            ),
            requests_cpu=2,
            requests_memory=5,
        ),
        row(
            "limits in effect are higher",
            pod(container(limits={"cpu": 1}), statuses=[status(limits={"cpu": 2})]),
            limits_cpu=2,
        ),
        row(
            "the first condition of its type decides",
            pod(container({"cpu": 20}), statuses=[UP], conditions=[DEFERRED, INFEASIBLE]),
            requests_cpu=20,
            limits_cpu=2,
        ),
        row(
            "a status with empty resources, infeasible",
            pod(container({"cpu": 20}, {"cpu": 40}), statuses=[status()], conditions=[INFEASIBLE]),
        ),
        row(
            "a sidecar has a status as well",
            pod(
                container({"cpu": 1}),
                init=[container({"cpu": 1}, always=True)],
                initContainerStatuses=[status("i0", requests={"cpu": 3})],
            ),
            requests_cpu=4,
        ),
    ],
)
def test_a_resize_counts_with_its_maximum(obj: Manifest, expected: dict[str, Any]) -> None:
    """Requested, allocated or in effect; not if infeasible (RQ-112, RQ-113, RQ-114, RQ-121)."""
    check(obj, expected)


@pytest.mark.parametrize("conditions", [[], [DEFERRED], [INFEASIBLE]], ids=["none", "def", "inf"])
@pytest.mark.parametrize("statuses", [[status(allocated={"cpu": 2}, resources=False)], []])
def test_a_status_without_resources_is_ignored(
    conditions: list[Manifest], statuses: list[Manifest]
) -> None:
    """Release 1.36 takes the spec then, whatever is allocated or infeasible (RQ-T49)."""
    obj = pod(container({"cpu": 1, "memory": "1Gi"}), statuses=statuses, conditions=conditions)
    check(obj, {"requests.cpu": 1, "requests.memory": "1Gi"})


def test_the_status_of_an_init_container_that_ends_is_ignored() -> None:
    """Release 1.36 reads the statuses of app containers and sidecars only (section 19)."""
    obj = pod(
        init=[container({"cpu": 1})], initContainerStatuses=[status("i0", requests={"cpu": 3})]
    )
    check(obj, {"requests.cpu": 1})


def test_the_maximum_is_taken_for_each_container() -> None:
    """Resizes cross: 1.36 sums the maxima, 1.37 takes the maximum of the sums (RQ-117)."""
    obj = pod(
        container({"cpu": 1}, name="a"),
        container({"cpu": 4}, name="b"),
        statuses=[status("a", requests={"cpu": 3}), status("b", requests={"cpu": 2})],
    )
    check(obj, {"requests.cpu": 7})


def test_an_infeasible_resize_of_one_container_leaves_another_without_status() -> None:
    """In 1.36 the one without status counts with its spec (RQ-118, section 19)."""
    obj = pod(
        container({"cpu": 20}, name="a"),
        container({"cpu": 5}, name="b"),
        statuses=[status("a", requests={"cpu": 1}, allocated={"cpu": 2})],
        conditions=[INFEASIBLE],
    )
    check(obj, {"requests.cpu": 7})


def test_node_resource_claims_are_ignored() -> None:
    """Node resources of claims are in no quota (RQ-128)."""
    claimed = [{"resourceClaimName": "x", "resources": {"cpu": 5}}]
    check(
        pod(container({"cpu": 1}), nodeAllocatableResourceClaimStatuses=claimed),
        {"cpu": 1, "requests.cpu": 1},
    )
