"""The evaluator of pods."""

import sys
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.evaluators.base import (
    Contribution,
    Evaluator,
    contribution_of,
    usage_of,
)
from kcm_host_resourcequota.evaluators.extended_resources import (
    REQUESTS_PREFIX,
    is_extended_request,
    is_extended_resource,
)
from kcm_host_resourcequota.evaluators.pod_requests import (
    HUGE_PAGES_PREFIX,
    ContainerShape,
    Needs,
    Shape,
    StatusShape,
    pod_needs,
    specified_needs,
)
from kcm_host_resourcequota.quantity import NANO, Quantity
from kcm_host_resourcequota.scopes import Vector

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


COUNT = "count/pods"
PODS = "pods"
LIMITS_PREFIX = "limits."

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    {
        COUNT,
        PODS,
        *_STANDARD,
        *(REQUESTS_PREFIX + name for name in _STANDARD),
        *(LIMITS_PREFIX + name for name in _STANDARD),
    }
)
_PREFIXES = (HUGE_PAGES_PREFIX, REQUESTS_PREFIX + HUGE_PAGES_PREFIX)
_ONE = Quantity(NANO)


def is_pod_name(name: str) -> bool:
    """Say whether pods serve a name of a quota (RQ-100 to RQ-104)."""
    return name in _NAMES or name.startswith(_PREFIXES) or is_extended_request(name)


def charged_amounts(needs: Needs) -> Mapping[str, Quantity]:
    """Give what a pod that is charged uses, by name (RQ-130 to RQ-136)."""
    amounts = {COUNT: _ONE, PODS: _ONE}
    for name, quantity in needs.requests.items():
        if name in _STANDARD or name.startswith(HUGE_PAGES_PREFIX):
            amounts[name] = amounts[REQUESTS_PREFIX + name] = quantity
        elif is_extended_resource(name):
            amounts[REQUESTS_PREFIX + name] = quantity
    for name, quantity in needs.limits.items():
        if name in _STANDARD:
            amounts[LIMITS_PREFIX + name] = quantity
    return amounts


def uncharged_amounts() -> Mapping[str, Quantity]:
    """Give what a pod uses that has ended, or whose time to go is over (RQ-106, RQ-107)."""
    return {COUNT: _ONE}


_BEST_EFFORT = "BestEffort"
_COMPUTE = ("cpu", "memory")


def vector_of(shape: Shape) -> Vector:
    """Give everything that scopes can ask of a pod (RQ-80 to RQ-86)."""
    best_effort = _is_best_effort(shape)
    scopes = {
        "Terminating" if shape.has_deadline else "NotTerminating",
        _BEST_EFFORT if best_effort else "NotBestEffort",
    }
    if shape.crosses_namespaces:
        scopes.add("CrossNamespacePodAffinity")
    names = {sys.intern(shape.priority_class)} if shape.priority_class else set()
    return Vector(frozenset(scopes), "PriorityClass", frozenset(names))


def _is_best_effort(shape: Shape) -> bool:
    """
    Say whether a pod's QoS class is `BestEffort` (RQ-95 to RQ-97).

    Where the server has not said it: when nothing asks for or is limited in cpu or memory. Any
    such amount above 0 makes one of the other two classes, and which one no scope asks.
    """
    if shape.qos_class:
        return shape.qos_class == _BEST_EFFORT
    return not any(
        name in each and each[name].nano > 0
        for needs in specified_needs(shape)
        for each in (needs.requests, needs.limits)
        for name in _COMPUTE
    )


POD = Kind("", "v1", "Pod", "pods")

_UNCHARGED = usage_of(uncharged_amounts())


class PodFacts(msgspec.Struct, frozen=True):
    """What a pod contributes until its time to go is over, and after that (RQ-107, RQ-108)."""

    until_expired: Contribution = Contribution()
    expired: Contribution = Contribution()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """
    A pod, reduced to what it contributes as soon as it is decoded.

    `metadata`, `spec` and `status` are None from then on, and pods with the same needs and scopes
    share their `facts`: a stored pod is a few hundred bytes. A quantity that is none makes the
    object undecodable, so that its last good figures stay (RQ-75).
    """

    metadata: PodMetadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None
    # The server never sends what follows: it is computed from what it sends.
    uid: str = ""
    #: The instant (Unix seconds) after which the pod is no longer charged; None if none is set.
    expires: float | None = None
    #: The claim made for the pod's extended resources; None while the pod names none (RQ-190).
    extended_claim: str | None = None
    facts: PodFacts = PodFacts()

    def __post_init__(self) -> None:
        metadata = self.metadata or PodMetadata()
        status = self.status or PodStatus()
        facts = facts_of(shape_of(self.spec or PodSpec(), status))
        claim = status.extended_resource_claim_status
        force_setattr(self, "uid", metadata.uid)
        force_setattr(self, "expires", _expiry(metadata))
        force_setattr(self, "extended_claim", claim.resource_claim_name if claim else None)
        force_setattr(self, "facts", facts)
        for name in ("metadata", "spec", "status"):
            force_setattr(self, name, None)

    def contribution(self, now: float) -> Contribution:
        """Give what it contributes at `now`; at the very instant of expiry it is still charged."""
        if self.expires is not None and now > self.expires:
            return self.facts.expired
        return self.facts.until_expired


class PodEvaluator(Evaluator):
    """Knows what pods use (sections 7.1 and 8)."""

    resource = "pods"
    kind = POD
    model = Pod

    def serves(self, name: str) -> bool:
        """See `Evaluator.serves`."""
        return is_pod_name(name)

    def contribution(self, key: Key, obj: Pod, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution`."""
        return obj.contribution(now)

    def deadline(self, obj: Pod) -> float | None:
        """See `Evaluator.deadline`; a pod that has ended is not charged in any case."""
        facts = obj.facts
        return obj.expires if facts.until_expired is not facts.expired else None


@lru_cache(maxsize=2048)
def facts_of(shape: Shape) -> PodFacts:
    """Give the facts of pods of one shape; bounded, so that templates long gone are let go."""
    vector = vector_of(shape)
    expired = contribution_of(_UNCHARGED, vector)
    if shape.ended:
        return PodFacts(expired, expired)
    return PodFacts(contribution_of(usage_of(charged_amounts(pod_needs(shape))), vector), expired)


def _expiry(metadata: PodMetadata) -> float | None:
    """Give deletion time plus grace period: the period is waited for twice, as by RQ-109."""
    deletion = metadata.deletion_timestamp
    grace = metadata.deletion_grace_period_seconds
    return None if deletion is None or grace is None else deletion.timestamp() + grace
