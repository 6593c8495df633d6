"""The evaluator of persistent volume claims, and their attributes classes."""

from typing import Any

import msgspec
import pytest
from plugins.resourcequota.quota_objects import Amounts, Manifest, Namespace, nano, requirement
from plugins.tables import row

from kcm_host.api import QuantityFormat
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import (
    PersistentVolumeClaim,
    PersistentVolumeClaimEvaluator,
)

ANNOTATION = "volume.beta.kubernetes.io/storage-class"
INFIX = ".storageclass.storage.k8s.io/"
SCOPE = "VolumeAttributesClass"


def claim(
    storage: str | int | None = None,
    *,
    name: str = "v",
    annotation: str | None = None,
    status: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """Return a volume claim."""
    metadata: Manifest = {"name": name}
    if annotation is not None:
        metadata["annotations"] = {ANNOTATION: annotation}
    requests = {} if storage is None else {"requests": {"storage": storage}}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {"resources": requests, **spec},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("count/persistentvolumeclaims", True),
        ("persistentvolumeclaims", True),
        ("requests.storage", True),
        (f"gold{INFIX}persistentvolumeclaims", True),
        (f"gold{INFIX}requests.storage", True),
        (f"{INFIX}requests.storage", True),
        (f"requests.x{INFIX}requests.storage", True),
        (f"gold{INFIX}limits.storage", False),
        (f"gold{INFIX}persistentvolumeclaims.x", False),
        ("storage", False),
        ("limits.storage", False),
    ],
)
def test_volume_claims_handle(name: str, served: bool) -> None:
    """Any text before the class suffixes; the class need not exist (RQ-150, RQ-T82)."""
    assert PersistentVolumeClaimEvaluator().handles(name) is served


def test_claims_are_charged_to_their_storage_class() -> None:
    """The old annotation has precedence over the spec (RQ-T75, RQ-152, RQ-153, RQ-156)."""
    space = Namespace(
        claim("10Gi", name="a", storageClassName="gold"),
        claim("5Gi", name="b"),
        claim("1Gi", name="c", annotation="silver", storageClassName="gold"),
    )
    expected: Amounts = {
        "persistentvolumeclaims": 3,
        "count/persistentvolumeclaims": 3,
        "requests.storage": "16Gi",
        f"gold{INFIX}persistentvolumeclaims": 1,
        f"gold{INFIX}requests.storage": "10Gi",
        f"silver{INFIX}persistentvolumeclaims": 1,
        f"silver{INFIX}requests.storage": "1Gi",
        f"nosuch{INFIX}persistentvolumeclaims": 0,
        f"{INFIX}persistentvolumeclaims": 0,
    }
    assert space.used(*expected) == nano(expected)


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": {"annotations": None}, "spec": {"resources": None}, "status": {}},
        claim(annotation="", storageClassName="gold"),
    ],
)
def test_a_claim_for_nothing_is_counted(manifest: Manifest) -> None:
    """Missing, null and empty have one meaning: no size and no class (RQ-T76, RQ-152, RQ-157)."""
    seen = msgspec.convert(manifest, PersistentVolumeClaim).contribution
    assert [name for name, _, _ in seen.usage] == [
        "count/persistentvolumeclaims",
        "persistentvolumeclaims",
    ]
    assert seen.attributes.names == frozenset()


def test_an_allocation_of_the_same_size_keeps_the_format_of_the_request() -> None:
    """Only a larger one is another number (RQ-155, RQ-304)."""
    manifest = claim("1Gi", status={"allocatedResources": {"storage": "1073741824"}})
    seen = msgspec.convert(manifest, PersistentVolumeClaim).contribution
    usage = {name: form for name, _, form in seen.usage}
    assert usage["requests.storage"] is QuantityFormat.BINARY_SI


def allocated(storage: str, **more: Any) -> Manifest:
    """Return a status with allocated storage."""
    return {"allocatedResources": {"storage": storage}, **more}


@pytest.mark.parametrize(
    ("obj", "size"),
    [
        row("RQ-T77: whole bytes", claim("1181116006400m"), 1181116007),
        row("RQ-T78: more", claim("20Gi", status=allocated("100Gi")), "100Gi"),
        row("RQ-T78: less", claim("20Gi", status=allocated("10Gi")), "20Gi"),
        row("RQ-T79: nothing asked for", claim(status=allocated("10Gi")), 0),
        row("RQ-157", claim("5Gi", status={"capacity": {"storage": "9Gi"}}), "5Gi"),
        row("RQ-155: compared as rounded", claim("100m", status=allocated("900m")), 1),
        row("RQ-155: rounded after", claim("100m", status=allocated("1001m")), 2),
        row("empty list", claim("5Gi", status={"allocatedResources": {}}), "5Gi"),
        row("RQ-153: any phase", claim("5Gi", status={"phase": "Lost"}), "5Gi"),
    ],
)
def test_the_size_is_requested_or_allocated(obj: Manifest, size: str | int) -> None:
    """The larger of both, in whole bytes; a claim without a request has none (RQ-154, RQ-155)."""
    assert Namespace(obj).used("requests.storage", "persistentvolumeclaims") == nano(
        {"requests.storage": size, "persistentvolumeclaims": 1}
    )


def test_a_claim_without_size_gets_no_storage_names() -> None:
    """They are absent, also under the class (RQ-154)."""
    read = msgspec.convert(claim(storageClassName="gold"), PersistentVolumeClaim)
    assert [name for name, _, _ in read.contribution.usage] == [
        "count/persistentvolumeclaims",
        f"gold{INFIX}persistentvolumeclaims",
        "persistentvolumeclaims",
    ]


FIVE = (("In", "silver"), ("In", "gold"), ("NotIn", "gold"), ("Exists",), ("DoesNotExist",))


@pytest.mark.parametrize(
    ("obj", "counts"),
    [
        row(
            "RQ-T80",
            claim(
                volumeAttributesClassName="gold",
                status={"currentVolumeAttributesClassName": "silver"},
            ),
            [1, 1, 1, 1, 0],
        ),
        row("RQ-T81", claim(), [0, 0, 1, 0, 1]),
        row(
            "RQ-88: a target alone",
            claim(
                volumeAttributesClassName="",
                status={"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}},
            ),
            [0, 1, 0, 1, 0],
        ),
        row("one name", claim(volumeAttributesClassName="gold"), [0, 1, 0, 1, 0]),
    ],
)
def test_attributes_classes_are_selected(obj: Manifest, counts: list[int]) -> None:
    """One of its classes is enough, during a change too (RQ-88, RQ-89, RQ-151, RQ-T145, RQ-B25)."""
    space = Namespace(obj)
    found = [
        space.used("persistentvolumeclaims", selector=[requirement(SCOPE, *each)]) for each in FIVE
    ]
    assert found == [nano({"persistentvolumeclaims": each}) for each in counts]


@pytest.mark.parametrize("scope", ["PriorityClass", "Terminating", "NotTerminating", "BestEffort"])
def test_volume_claims_are_in_no_other_scope(scope: str) -> None:
    """They have no scope but their own (RQ-88)."""
    space = Namespace(claim(volumeAttributesClassName="gold"))
    assert space.used("persistentvolumeclaims", scopes=[scope]) == {"persistentvolumeclaims": 0}


def test_equal_claims_share_their_contribution() -> None:
    """Only the reduced form is kept (RQ-B4)."""
    one, other = (msgspec.convert(claim("1Gi", name=n), PersistentVolumeClaim) for n in "ab")
    assert one.contribution is other.contribution
    assert (one.metadata, one.spec, one.status) == (None, None, None)


def test_a_claim_with_an_invalid_size_is_undecodable() -> None:
    """The host keeps the last decodable version (RQ-75, RQ-B28)."""
    with pytest.raises(msgspec.ValidationError, match="'1 Gi' is no quantity"):
        msgspec.convert(claim("1 Gi"), PersistentVolumeClaim)
