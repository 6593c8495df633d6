"""The evaluator of pods: names, charging, and the stored form of a pod."""

from typing import Any

import msgspec
import pytest
from plugins.resourcequota.quota_manifests import timestamp
from plugins.resourcequota.quota_objects import (
    NOW,
    REQUESTS_GPU,
    Namespace,
    amounts,
    box,
    container,
    nano,
    pod,
)
from plugins.tables import row

from kcm_host.informer.decoder import reads_metadata_only
from kcm_host_resourcequota.evaluators.pods import Pod, PodEvaluator

PODS = PodEvaluator()
DOMAIN_253 = ".".join(["d" * 63] * 3 + ["d" * 61])


@pytest.mark.parametrize(
    "name",
    [
        *("count/pods", "pods", "cpu", "memory", "ephemeral-storage"),
        *("requests.cpu", "requests.memory", "requests.ephemeral-storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
        *("hugepages-2Mi", "requests.hugepages-1Gi", "hugepages-", "requests.hugepages-"),
        *("requests.nvidia.com/gpu", "requests.deviceclass.resource.kubernetes.io/gpu"),
        "requests.gold.storageclass.storage.k8s.io/requests.storage",
        "requests.gpu.deviceclass.resource.k8s.io/devices",
    ],
)
def test_pods_handle(name: str) -> None:
    """These names, even if no pod has an amount for them (RQ-100, RQ-101, RQ-102)."""
    assert PODS.handles(name)


@pytest.mark.parametrize(
    "name",
    [
        *("requests.storage", "requests.example.kubernetes.io/x", "nvidia.com/gpu"),
        *("limits.nvidia.com/gpu", "limits.hugepages-2Mi", "count/services", "services", ""),
        *("deviceclass.resource.kubernetes.io/gpu", "requests.pods", "count/pods.example.com"),
    ],
)
def test_pods_do_not_handle(name: str) -> None:
    """Similar names are not handled (RQ-103, RQ-104)."""
    assert not PODS.handles(name)


def test_ended_pods_are_only_counted() -> None:
    """Failed and succeeded pods use nothing but `count/pods` (RQ-T30, RQ-106, RQ-107)."""
    phases = ("Running", "Pending", "Unknown", None, "Failed", "Succeeded")
    space = Namespace(*(pod(container({"cpu": 1}), name=f"{p}", phase=p) for p in phases))
    assert space.used("pods", "count/pods", "cpu") == nano({"pods": 4, "count/pods": 6, "cpu": 4})


def leaving(name: str, seconds_ago: int | None, grace: int | None) -> dict[str, Any]:
    """Return a pod whose deletion time was a number of seconds before now."""
    metadata: dict[str, Any] = {}
    if seconds_ago is not None:
        metadata["deletionTimestamp"] = timestamp(NOW - seconds_ago)
    if grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace
    return pod(name=name, metadata=metadata)


def test_expired_pods_are_only_counted() -> None:
    """Deletion time and grace period must both be set and be over (RQ-T31, RQ-108, RQ-109)."""
    rows = [(40, 30), (20, 30), (40, None), (1, 0), (None, None), (None, 30)]
    space = Namespace(*(leaving(f"p{n}", *row) for n, row in enumerate(rows)))
    assert space.used("pods", "count/pods") == nano({"pods": 4, "count/pods": 6})


@pytest.mark.parametrize(
    ("later_seconds", "pods"), [(-0.001, 1), (0.0, 1), (0.001, 0), (-100.0, 1)]
)
def test_a_pod_is_charged_until_it_expires(later_seconds: float, pods: int) -> None:
    """At deletion time plus grace it still is; when the clock is set back, again (RQ-108, B21)."""
    space = Namespace(leaving("p", 0, 30))
    assert space.used("pods", now=NOW + 30 + later_seconds) == nano({"pods": pods})


@pytest.mark.parametrize(
    ("obj", "expiration"),
    [
        row("leaving", leaving("p", 0, 30), NOW + 30),
        row("without grace", leaving("p", 0, 0), NOW),
        row("overdue", leaving("p", 90, 30), NOW - 60),
        row("no grace period said", leaving("p", 0, None), None),
        row("staying", pod(), None),
        row("ended", leaving("p", 0, 30) | {"status": {"phase": "Failed"}}, None),
    ],
)
def test_a_pod_expires_when_charging_ends(obj: dict[str, Any], expiration: float | None) -> None:
    """Only a pod that will no longer be charged has an expiration (RQ-B1, RQ-B21, RQ-110)."""
    assert PODS.expiration(read(obj)) == expiration


def read(obj: dict[str, Any]) -> Pod:
    """Return a pod, decoded from JSON."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=Pod)


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("asked", "used", "unhandled"),
    [
        row(
            "RQ-T37: huge pages",
            "hugepages-2Mi=4Mi / hugepages-2Mi=4Mi",
            "hugepages-2Mi=4Mi requests.hugepages-2Mi=4Mi",
            ["limits.hugepages-2Mi"],
        ),
        row(
            "RQ-T38: an extended resource",
            "example.com/gpu=2 / example.com/gpu=2",
            f"{REQUESTS_GPU}=2 pods=1",
            ["example.com/gpu", "limits.example.com/gpu"],
        ),
        row(
            "RQ-T39: ephemeral storage",
            "ephemeral-storage=1Gi / ephemeral-storage=2Gi",
            "ephemeral-storage=1Gi requests.ephemeral-storage=1Gi limits.ephemeral-storage=2Gi",
            [],
        ),
        row(
            "RQ-T40: Kubernetes' own domain",
            "example.kubernetes.io/x=1",
            "pods=1",
            ["requests.example.kubernetes.io/x"],
        ),
        row("RQ-T41", "", f"cpu=0 limits.memory=0 {REQUESTS_GPU}=0 pods=1", []),
        row("RQ-136: a limit alone", "/ example.com/gpu=2", f"{REQUESTS_GPU}=0", []),
        row("RQ-134: implicit name", f"{IMPLICIT}=2", f"requests.{IMPLICIT}=2", []),
        row(
            "RQ-134, RQ-135: other names",
            "requests.example.com/x=1 storage=5",
            "requests.requests.example.com/x=0 requests.example.com/x=0",
            ["storage", "limits.requests.example.com/x"],
        ),
    ],
)
def test_requests_count_under_names_of_quotas(asked: str, used: str, unhandled: list[str]) -> None:
    """The requests of a pod are under these names and no others (RQ-130 to RQ-133, RQ-135)."""
    expected = amounts(used)
    assert Namespace(pod(box(asked))).used(*expected, *unhandled) == nano(expected)


@pytest.mark.parametrize(
    ("resource", "amount"),
    [
        row("longest name", "a.b/" + "n" * 63, 1),
        row("name too long", "a.b/" + "n" * 64, 0),
        row("longest domain", DOMAIN_253.removeprefix("d" * 9) + "/x", 1),
        row("domain too long", DOMAIN_253.removeprefix("d" * 8) + "/x", 0),
        row("name begins with a dash", "a.b/-x", 0),
        row("all kinds of characters", "a.b/x_Y.z-1", 1),
        row("capitals in the domain", "A.b/x", 0),
        row("two slashes", "a.b/c/x", 0),
        row("no name", "a.b/", 0),
        row("no domain", "/x", 0),
    ],
)
def test_extended_resources_need_a_qualified_name(resource: str, amount: int) -> None:
    """A name that a quota cannot have is not charged (RQ-134)."""
    contribution = read(pod(container({resource: 1}))).contribution(NOW)
    used = {name: number for name, number, _ in contribution.usage}
    assert used.get(f"requests.{resource}", 0) == nano({"": amount})[""]


def test_equal_numbers_in_other_formats_add_up() -> None:
    """Numbers are exact in any format (RQ-T51)."""
    written = ("200Mi", 209715200, "209715200000m")
    pods = (pod(container({"memory": each}), name=f"{each}") for each in written)
    assert Namespace(*pods).used("requests.memory") == nano({"requests.memory": "600Mi"})


@pytest.mark.parametrize("text", ["1 Gi", "x", "1.2.3", ""])
def test_a_pod_with_an_invalid_quantity_is_undecodable(text: str) -> None:
    """The error has the path; the host keeps the last decodable version (RQ-75, RQ-B28)."""
    with pytest.raises(msgspec.ValidationError, match="resource 'cpu'"):
        read(pod(container({"memory": "1Gi", "cpu": text})))


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_missing_parts_are_empty(part: str) -> None:
    """Null, missing and empty have one meaning; such a pod still counts (RQ-107)."""
    for obj in (pod() | {part: None}, {k: v for k, v in pod().items() if k != part}):
        used = {name for name, _, _ in read(obj).contribution(NOW).usage}
        assert used == {"count/pods", "pods"}


def test_pods_of_one_template_share_what_is_computed() -> None:
    """Names, uids and volumes differ; the contributions are the same objects (RQ-B4)."""
    pods = [
        read(pod(container({"cpu": 1}), name=f"p{n}", spec={"volumes": [{"name": f"v{n}"}]}))
        for n in range(3)
    ]
    assert len({each.uid for each in pods}) == 3
    assert len({id(each.contributions) for each in pods}) == 1
    other = read(pod(container({"cpu": "1000m"}), phase="Pending"))
    assert other.contributions.expired is pods[0].contributions.expired


def test_a_stored_pod_is_small() -> None:
    """Spec and status are dropped after decoding."""
    stored = read(pod(container({"cpu": 1})))
    assert (stored.metadata, stored.spec, stored.status) == (None, None, None)
    assert not reads_metadata_only(Pod)
