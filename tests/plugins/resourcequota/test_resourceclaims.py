"""The evaluator of resource claims, and the exemption of claims that pods are charged for."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from plugins.resourcequota.quota_objects import (
    CREATED,
    GPU_DEVICES,
    IMPLICIT_GPU,
    NOW,
    REQUESTS_GPU,
    Manifest,
    Namespace,
    container,
    nano,
    pod,
    requirement,
)
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_resourcequota.evaluators.extended_resources import DeviceClasses
from kcm_host_resourcequota.evaluators.pods import Pod
from kcm_host_resourcequota.evaluators.resourceclaims import (
    OldestClaims,
    ResourceClaimEvaluator,
    claims_of_class,
)

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
COUNT = "count/resourceclaims.resource.k8s.io"
THREE = (REQUESTS_GPU, GPU_DEVICES, IMPLICIT_GPU)
EXPLICIT = {"gpu": "example.com/gpu"}
GONE = "2020-01-01T00:00:00Z"


def devices(class_name: str, count: int = 1, mode: str = "ExactCount") -> Manifest:
    """Return one request, with the defaults of the server."""
    return {"deviceClassName": class_name, "allocationMode": mode, "count": count}


def exactly(class_name: str, count: int = 1, mode: str = "ExactCount") -> Manifest:
    """Return a request for devices of one class."""
    return {"name": "r", "exactly": devices(class_name, count, mode)}


def first(*options: Manifest) -> Manifest:
    """Return a request for the first available of several."""
    return {"name": "r", "firstAvailable": list(options)}


def claim(*requests: Manifest, name: str = "k", **metadata: Any) -> Manifest:
    """Return a claim."""
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "creationTimestamp": CREATED, **metadata},
        "spec": {"devices": {"requests": list(requests)}},
    }


def extended(
    *requests: Manifest,
    name: str = "k",
    value: str = "true",
    owner: Mapping[str, Any] | None = None,
    created: str = CREATED,
) -> Manifest:
    """Return a claim that was created for the extended resources of pod `p`."""
    pod_owner = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "uid-p", "controller": True}
    return claim(
        *(requests or (exactly("gpu", 2),)),
        name=name,
        annotations={ANNOTATION: value},
        ownerReferences=[{**pod_owner, **(owner or {})}],
        creationTimestamp=created,
    )


def user(resource: str = "example.com/gpu", count: int = 2, **fields: Any) -> Manifest:
    """Return pod `p`, which requests an extended resource."""
    return pod(container({resource: count}), name="p", **fields)


def naming(claim_name: str) -> Manifest:
    """Return the field of a pod's status that names its extended claim."""
    return {"extendedResourceClaimStatus": {"resourceClaimName": claim_name}}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        row("RQ-T85", [exactly("gpu", 2), exactly("net", 1, "All")], {"gpu": 2, "net": 32}),
        row(
            "RQ-T86",
            [first(devices("gpu", 4), devices("gpu", 2), devices("fpga", 1))],
            {"gpu": 4, "fpga": 1},
        ),
        row("RQ-T87", [exactly("gpu", 2), first(devices("gpu", 3), devices("gpu", 1))], {"gpu": 5}),
        row("RQ-T94", [exactly("gpu", 7, "Foo")], {"gpu": 0}),
        row("RQ-180: first of unknown", [first(devices("gpu", 7, "Foo"))], {"gpu": 0}),
        row("above all", [first(devices("gpu", 40), devices("gpu", 0, "All"))], {"gpu": 40}),
        row("RQ-179: a form of the future", [{"name": "future"}], {"gpu": 0}),
        row("RQ-182: admin access", [{**exactly("gpu", 2), "adminAccess": True}], {"gpu": 2}),
        row("no requests", [], {"gpu": 0}),
    ],
)
def test_claims_are_charged_by_class(requests: list[Manifest], expected: dict[str, int]) -> None:
    """The largest possible number of each class, and the claim itself (RQ-178, RQ-179, RQ-181)."""
    names = {f"{name}.deviceclass.resource.k8s.io/devices": n for name, n in expected.items()}
    names[COUNT] = 1
    assert Namespace(claim(*requests)).used(*names) == nano(names)


@pytest.mark.parametrize(
    ("name", "served"),
    [
        (COUNT, True),
        (GPU_DEVICES, True),
        ("nosuch.deviceclass.resource.k8s.io/devices", True),
        (".deviceclass.resource.k8s.io/devices", True),
        ("count/resourceclaims", False),
        ("resourceclaims.resource.k8s.io", False),
        ("gpu.deviceclass.resource.kubernetes.io/devices", False),
        ("requests.storage", False),
    ],
)
def test_claims_handle_their_count_and_every_class(name: str, served: bool) -> None:
    """The class need not exist (RQ-170, RQ-171)."""
    evaluator = ResourceClaimEvaluator(DeviceClasses(), OldestClaims())
    assert evaluator.handles(name) is served


@pytest.mark.parametrize("manifest", [{}, {"spec": None}, {"spec": {"devices": {}}}])
def test_a_claim_for_nothing_is_counted(manifest: Manifest) -> None:
    """Missing parts are empty (RQ-178)."""
    space = Namespace({"kind": "ResourceClaim", "metadata": {"name": "k"}, **manifest})
    assert space.used(COUNT, GPU_DEVICES) == nano({COUNT: 1, GPU_DEVICES: 0})


def test_a_claim_that_is_allocated_and_being_deleted_is_charged() -> None:
    """From creation until it is removed (RQ-182)."""
    leaving = claim(exactly("gpu", 2), deletionTimestamp=GONE)
    leaving["status"] = {"allocation": {}, "reservedFor": [{"name": "p"}]}
    assert Namespace(leaving).used(GPU_DEVICES) == nano({GPU_DEVICES: 2})


def check(space: Namespace, *expected: int, **spec: Any) -> None:
    """Compare the usage of the explicit, the class's and the implicit name, in this order."""
    assert space.used(*THREE, **spec) == nano(dict(zip(THREE, expected, strict=True)))


def test_the_implicit_name_is_charged_without_an_explicit_one() -> None:
    """Every class has one (RQ-T88, RQ-183)."""
    check(Namespace(claim(exactly("gpu", 2)), classes={"gpu": ""}), 0, 2, 2)


def test_a_claim_of_a_missing_class_is_charged() -> None:
    """The evaluator is not planned for the name alone, but for another one (RQ-172, RQ-173)."""
    space = Namespace(claim(exactly("gpu", 2)))
    assert space.used(IMPLICIT_GPU, COUNT) == nano({IMPLICIT_GPU: 2, COUNT: 1})
    assert not any(e.handles(IMPLICIT_GPU) for e in space.evaluators if e.resource != "pods")


def test_claims_are_in_no_scope() -> None:
    """The pod is in scope and charged; the claim is not (RQ-T93, RQ-175)."""
    obj = user(count=1, spec={"priorityClassName": "high"})
    space = Namespace(claim(exactly("gpu", 2)), obj, classes=EXPLICIT)
    check(space, 1, 0, 0, selector=[requirement("PriorityClass", "Exists")])


def test_a_class_that_gets_a_name_is_charged_under_it() -> None:
    """At once, without a change of a claim (RQ-T96, D-9)."""
    space = Namespace(claim(exactly("gpu", 2)), classes={"gpu": ""})
    check(space, 0, 2, 2)
    assert space.declare("gpu", "example.com/gpu") == {REQUESTS_GPU}
    check(space, 2, 2, 2)
    assert claims_of_class(space.view, "gpu") == [Key("k", "ns")]
    assert claims_of_class(space.view, "net") == []


def test_classes_that_share_a_name_are_added_up() -> None:
    """The pod's amount is subtracted once (D-10, RQ-185)."""
    spec = [exactly("gpu", 2), exactly("old", 3)]
    classes = {**EXPLICIT, "old": "example.com/gpu"}
    check(Namespace(claim(*spec), classes=classes), 5, 2, 2)
    space = Namespace(extended(*spec), user(count=1, **naming("k")), classes=classes)
    check(space, 5, 2, 2)


def test_a_class_may_have_the_name_of_an_extended_resource() -> None:
    """Then the amounts of both are added up (RQ-178, RQ-185)."""
    spec = [exactly("requests.x", 1), exactly("gpu", 2), exactly("", 5)]
    space = Namespace(claim(*spec), classes={"gpu": "x.deviceclass.resource.k8s.io/devices"})
    name = "requests.x.deviceclass.resource.k8s.io/devices"
    assert space.used(name, IMPLICIT_GPU, COUNT) == nano({name: 3, IMPLICIT_GPU: 2, COUNT: 1})


EXPIRED = {"deletionTimestamp": GONE, "deletionGracePeriodSeconds": 30}
FULL = (4, 2, 2)
ONCE = (2, 2, 2)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        row("all conditions", [extended(), user()], ONCE),
        row("1: other annotation", [extended(value="True"), user()], FULL),
        row("1: no annotation", [claim(exactly("gpu", 2)), user()], FULL),
        row("2: no controller", [extended(owner={"controller": None}), user()], FULL),
        row("2: another kind", [extended(owner={"kind": "Job"}), user()], FULL),
        row("2: other version", [extended(owner={"apiVersion": "v2"}), user()], FULL),
        row("3: no such pod", [extended(owner={"name": "q"}), user()], FULL),
        row("3, RQ-T95: other uid", [extended(owner={"uid": "other"}), user()], FULL),
        row("3: though named", [extended(owner={"uid": "other"}), user(**naming("k"))], FULL),
        row("4, RQ-T90: named by the pod", [extended(), user(**naming("k"))], ONCE),
        row("4: another is named", [extended(), user(**naming("x"))], FULL),
        row("4: none is named", [extended(), user(**naming(""))], FULL),
        row("RQ-T89: both add up", [claim(exactly("gpu", 2)), user(count=1)], (3, 2, 2)),
        row(
            "RQ-T91: the pod requests the implicit name, the claim has the explicit one",
            [extended(), user("deviceclass.resource.kubernetes.io/gpu", **naming("k"))],
            ONCE,
        ),
        row("RQ-184: the rest", [extended(exactly("gpu", 5)), user(**naming("k"))], (5, 5, 5)),
        row("RQ-191: the pod has ended", [extended(), user(phase="Failed", **naming("k"))], ONCE),
        row("RQ-191: it has expired", [extended(), user(metadata=EXPIRED, **naming("k"))], ONCE),
        row(
            "RQ-192: its scopes do not matter",
            [extended(), user(spec={"activeDeadlineSeconds": 5}, **naming("k"))],
            ONCE,
        ),
    ],
)
def test_a_claim_is_exempted_only_if_the_pod_confirms_it(
    objects: list[Manifest], expected: tuple[int, int, int]
) -> None:
    """If one condition fails, it is charged in full, without error (RQ-190, RQ-193, RQ-194)."""
    check(Namespace(*objects, classes=EXPLICIT), *expected)


def test_the_claims_of_a_pod_are_those_that_were_made_for_it() -> None:
    """By the status of each version, or the oldest; others are not evaluated (RQ-B20, RQ-193)."""
    space = Namespace(
        extended(), extended(name="younger", created="2027-01-15T08:00:00Z"), claim(name="own")
    )
    evaluator = next(e for e in space.evaluators if isinstance(e, ResourceClaimEvaluator))
    statuses: tuple[Manifest, ...] = (naming("own"), naming("younger"), {})
    own, *others = (
        msgspec.json.decode(msgspec.json.encode(user(**each)), type=Pod) for each in statuses
    )
    assert evaluator.claims_charged_to("ns", [None, own]) == set()
    assert evaluator.claims_charged_to("ns", others) == {Key("younger", "ns"), Key("k", "ns")}


def test_an_undecodable_pod_exempts_nothing() -> None:
    """Its claim is charged in full, without error (RQ-193)."""
    space = Namespace(extended(), classes=EXPLICIT)
    space.put_undecodable("Pod", "p")
    check(space, 2, 2, 2)


@pytest.mark.parametrize(
    ("others", "exempted"),
    [
        row("a younger one", [extended(name="a", created="2027-01-15T07:00:01Z")], "k"),
        row("an older one", [extended(name="z", created="2027-01-15T06:59:59Z")], "z"),
        row("as old, with a higher name", [extended(name="z")], "k"),
        row("as old, with a lower name", [extended(name="a")], "a"),
        row("an older, not annotated", [extended(name="a", value="false", created=GONE)], "k"),
        row("an older of another", [extended(name="a", owner={"uid": "x"}, created=GONE)], "k"),
    ],
)
def test_one_claim_of_a_pod_is_exempted(others: list[Manifest], exempted: str) -> None:
    """The oldest, of equal ones the first by name, if the status names none (RQ-190, 5)."""
    space = Namespace(extended(), *others, user(), classes=EXPLICIT)
    evaluator = next(e for e in space.evaluators if e.resource.startswith("resourceclaims"))
    found = [
        key.name
        for key, obj in space.view.of(evaluator.kind, evaluator.model).items()
        if REQUESTS_GPU
        not in {name for name, _, _ in evaluator.contribution(key, obj, space.view, NOW).usage}
    ]
    assert found == [exempted]
