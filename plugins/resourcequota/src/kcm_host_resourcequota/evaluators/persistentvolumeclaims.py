"""The evaluator of persistent volume claims."""

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, Quantity, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    usage_of,
)
from kcm_host_resourcequota.scopes import ScopeAttributes

PERSISTENT_VOLUME_CLAIM = Kind(
    group="", version="v1", name="PersistentVolumeClaim", resource="persistentvolumeclaims"
)

_CLAIMS = "persistentvolumeclaims"
_COUNT = f"count/{_CLAIMS}"
_STORAGE = "requests.storage"
_NAMES = frozenset({_CLAIMS, _COUNT, _STORAGE})
_CLASS_INFIX = ".storageclass.storage.k8s.io/"
_CLASS_SUFFIXES = (_CLASS_INFIX + _CLAIMS, _CLASS_INFIX + _STORAGE)
_ONE = Quantity(Quantity.NANO)

#: The storage of a resource list, as JSON has it; unset if the list has none.
RawSize = str | int | float | msgspec.UnsetType | None


class Storage(msgspec.Struct, frozen=True, gc=False):
    """The storage entry of a resource list."""

    storage: RawSize = msgspec.UNSET


class Resources(msgspec.Struct, frozen=True, gc=False):
    """The requests of a claim."""

    requests: Storage | None = None


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """The old annotation for the storage class; it has precedence, even if empty."""

    storage_class: str | None = msgspec.field(
        name="volume.beta.kubernetes.io/storage-class", default=None
    )


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The annotations of a claim."""

    annotations: Annotations | None = None


class ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a claim."""

    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    resources: Resources | None = None


class ModifyStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A change of the attributes class that is in progress."""

    target_volume_attributes_class_name: str | None = None


class ClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a claim."""

    allocated_resources: Storage | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyStatus | None = None


class PersistentVolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim, reduced to its contribution when it is decoded; the rest is None afterwards."""

    metadata: Metadata | None = None
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None
    contribution: Contribution = Contribution()  # never sent by the server

    def __post_init__(self) -> None:
        spec = self.spec or ClaimSpec()
        status = self.status or ClaimStatus()
        amounts = _amounts(_storage_class(self.metadata, spec), _size(spec, status))
        attributes = ScopeAttributes(
            named_scope="VolumeAttributesClass", names=_attributes(spec, status)
        )
        force_setattr(self, "contribution", contribution_of(usage_of(amounts), attributes))
        for name in ("metadata", "spec", "status"):
            force_setattr(self, name, None)


class PersistentVolumeClaimEvaluator(Evaluator):
    """Computes the usage of persistent volume claims (sections 7.2 and 10)."""

    resource = _CLAIMS
    kind = PERSISTENT_VOLUME_CLAIM
    model = PersistentVolumeClaim

    def handles(self, name: str) -> bool:
        """See `Evaluator.handles`; the storage class need not exist (RQ-150)."""
        return name in _NAMES or name.endswith(_CLASS_SUFFIXES)

    def contribution(
        self, key: Key, obj: PersistentVolumeClaim, view: View, now: float
    ) -> Contribution:
        """See `Evaluator.contribution`."""
        return obj.contribution


def _amounts(storage_class: str, size: Quantity | None) -> dict[str, Quantity]:
    """Return the amounts of a claim by name (RQ-153 to RQ-156)."""
    amounts = {_CLAIMS: _ONE, _COUNT: _ONE}
    if size is not None:
        amounts[_STORAGE] = size
    if storage_class:
        amounts[storage_class + _CLASS_INFIX + _CLAIMS] = _ONE
        if size is not None:
            amounts[storage_class + _CLASS_INFIX + _STORAGE] = size
    return amounts


def _storage_class(metadata: Metadata | None, spec: ClaimSpec) -> str:
    """Return the name of the storage class; empty for none (RQ-152)."""
    annotations = metadata.annotations if metadata is not None else None
    if annotations is not None and annotations.storage_class is not None:
        return annotations.storage_class
    return spec.storage_class_name or ""


def _size(spec: ClaimSpec, status: ClaimStatus) -> Quantity | None:
    """
    Return the size in whole bytes; None without a request (RQ-154, RQ-155, RQ-157).

    A larger allocation counts instead: an expansion that failed and was reverted in the spec may
    have been done in part.
    """
    requested = _parse_storage(spec.resources.requests if spec.resources is not None else None)
    if requested is None:
        return None
    size = requested.round_up()
    allocated = _parse_storage(status.allocated_resources)
    if allocated is None or allocated.nano <= size.nano:
        return size
    return allocated.round_up()


def _parse_storage(amounts: Storage | None) -> Quantity | None:
    if amounts is None or amounts.storage is msgspec.UNSET:
        return None
    return Quantity.parse(amounts.storage)


def _attributes(spec: ClaimSpec, status: ClaimStatus) -> frozenset[str]:
    """Return the attributes classes of a claim: present, requested and target (RQ-88, RQ-89)."""
    target = status.modify_volume_status
    names = (
        spec.volume_attributes_class_name,
        status.current_volume_attributes_class_name,
        target.target_volume_attributes_class_name if target is not None else None,
    )
    return frozenset(name for name in names if name)
