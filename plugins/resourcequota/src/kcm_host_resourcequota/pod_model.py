"""What is read of a pod."""

from datetime import datetime
from typing import Annotated

import msgspec

from kcm_host_resourcequota.pod_shape import ContainerShape, Shape, StatusShape

_RESIZE_PENDING = "PodResizePending"
_ENDED = frozenset({"Failed", "Succeeded"})

#: A part of an object that is read later, if at all.
Unread = msgspec.Raw

_ABSENT = msgspec.Raw()


class PodMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which pod it is, and since when it is to go."""

    uid: str = ""
    deletion_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    deletion_grace_period_seconds: int | None = None


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One container."""

    name: str = ""
    restart_policy: str | None = None
    resources: Unread = _ABSENT

    @property
    def shape(self) -> ContainerShape:
        """What counts of it."""
        sidecar = self.restart_policy == "Always"
        return ContainerShape(self.name, sidecar, _present(self.resources))


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a node says of one container."""

    name: str = ""
    resources: Unread = _ABSENT
    allocated_resources: Unread = _ABSENT

    @property
    def shape(self) -> StatusShape:
        """What counts of it."""
        return StatusShape(self.name, _present(self.resources), _present(self.allocated_resources))


class AffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One term of an affinity; an empty namespace selector is present as well (RQ-85)."""

    namespaces: tuple[str, ...] | None = None
    namespace_selector: Unread = _ABSENT

    @property
    def crosses_namespaces(self) -> bool:
        """Whether it says which namespaces it is about."""
        return bool(self.namespaces) or bool(_present(self.namespace_selector))


class WeightedTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One preferred term of an affinity."""

    pod_affinity_term: AffinityTerm = AffinityTerm()


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Affinity or anti-affinity to other pods."""

    required: tuple[AffinityTerm, ...] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[WeightedTerm, ...] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )

    @property
    def crosses_namespaces(self) -> bool:
        """Whether one of its terms does."""
        terms = (*(self.required or ()), *(each.pod_affinity_term for each in self.preferred or ()))
        return any(term.crosses_namespaces for term in terms)


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod wants to be near to, or away from."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    @property
    def crosses_namespaces(self) -> bool:
        """Whether one of its terms does (RQ-85)."""
        both = (self.pod_affinity, self.pod_anti_affinity)
        return any(each is not None and each.crosses_namespaces for each in both)


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod is to be."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    resources: Unread = _ABSENT
    overhead: Unread = _ABSENT
    active_deadline_seconds: int | None = None
    priority_class_name: str | None = None
    affinity: Affinity | None = None


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a pod; its status field is not looked at."""

    type: str = ""
    reason: str | None = None


class ExtendedClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that was made for a pod's extended resources."""

    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What has become of a pod."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None

    @property
    def infeasible(self) -> bool:
        """Whether the first pending resize cannot be done on this node (section 8.3)."""
        pending = (each for each in self.conditions or () if each.type == _RESIZE_PENDING)
        first = next(pending, None)
        return first is not None and first.reason == "Infeasible"


def shape_of(spec: PodSpec, status: PodStatus) -> Shape:
    """Give the shape of a pod."""
    deadline = spec.active_deadline_seconds
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return Shape(
        containers=tuple([each.shape for each in spec.containers or ()]),
        init_containers=tuple([each.shape for each in spec.init_containers or ()]),
        statuses=tuple([each.shape for each in statuses]),
        pod_resources=_present(spec.resources),
        overhead=_present(spec.overhead),
        ended=status.phase in _ENDED,
        infeasible=status.infeasible,
        has_deadline=deadline is not None and deadline >= 0,
        qos_class=status.qos_class or "",
        priority_class=spec.priority_class_name or "",
        crosses_namespaces=spec.affinity is not None and spec.affinity.crosses_namespaces,
    )


def _present(raw: Unread) -> bytes:
    """Give the JSON of a part, empty when it is missing or null."""
    text = bytes(raw)
    return b"" if text == b"null" else text
