"""What one resource claim uses."""

from collections.abc import Callable, Iterable, Mapping

from kcm_host.api import Key, Undecodable, View
from kcm_host_resourcequota.claim_model import RESOURCE_CLAIM, DeviceCount, ResourceClaim
from kcm_host_resourcequota.device_classes import DeviceClasses
from kcm_host_resourcequota.evaluator import Evaluator
from kcm_host_resourcequota.extended_names import (
    IMPLICIT_PREFIX,
    REQUESTS_PREFIX,
    is_extended_request,
)
from kcm_host_resourcequota.pods import POD, Pod
from kcm_host_resourcequota.quantity import NANO, Quantity
from kcm_host_resourcequota.usage import Contribution, contribution_of, usage_of

BY_OWNER_POD = "owner-pod"
BY_POD_UID = "pod-uid"
BY_CLASS = "class"

_COUNT = "count/resourceclaims.resource.k8s.io"
_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"


def by_owner_pod(key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Index extended claims by `namespace/name` of the pod they belong to."""
    return (f"{key.namespace}/{claim.owner.name}",) if claim.owner is not None else ()


def by_pod_uid(key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Index extended claims by `namespace/uid` of the pod they belong to."""
    return (f"{key.namespace}/{claim.owner.uid}",) if claim.owner is not None else ()


def by_class(_key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Index claims by the device classes they mention."""
    return [each.device_class for each in claim.devices]


#: What a watch of resource claims needs, for `ClaimEvaluator` and for `claims_of_pod`.
INDEXES: Mapping[str, Callable[[Key, ResourceClaim], Iterable[str]]] = {
    BY_OWNER_POD: by_owner_pod,
    BY_POD_UID: by_pod_uid,
    BY_CLASS: by_class,
}


def claims_of_pod(view: View, pod: Key) -> list[Key]:
    """Give the claims whose contribution depends on a pod (RQ-B20)."""
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    return [key for key, _ in claims.by_index(BY_OWNER_POD, f"{pod.namespace}/{pod.name}")]


def claims_of_class(view: View, device_class: str) -> list[Key]:
    """Give the claims, of all namespaces, that mention a device class (RQ-B20)."""
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    return [key for key, _ in claims.by_index(BY_CLASS, device_class)]


def siblings(view: View, key: Key, *states: ResourceClaim | None) -> set[Key]:
    """
    Give the other claims of the pods that a claim belongs to, or did, in these states.

    Which of them is exempted may change when one comes, goes or changes its owner (RQ-B20).
    """
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    values = {value for each in states if each is not None for value in by_pod_uid(key, each)}
    found = {other for value in values for other, _ in claims.by_index(BY_POD_UID, value)}
    return found - {key}


class ClaimEvaluator(Evaluator):
    """Knows what resource claims use (section 11)."""

    resource = "resourceclaims.resource.k8s.io"
    kind = RESOURCE_CLAIM
    model = ResourceClaim

    def __init__(self, device_classes: DeviceClasses) -> None:
        self._device_classes = device_classes

    def serves(self, name: str) -> bool:
        """
        See `Evaluator.serves`.

        Names of extended resources are served while some device class declares them, so the
        answer changes with the device classes (RQ-170 to RQ-174).
        """
        if name == _COUNT or name.endswith(_CLASS_SUFFIX):
            return True
        extended = is_extended_request(name)
        return extended and self._device_classes.declares(name.removeprefix(REQUESTS_PREFIX))

    def contribution(self, key: Key, obj: ResourceClaim, view: View, now: float) -> Contribution:
        """See `Evaluator.contribution` (RQ-178 to RQ-185)."""
        amounts = {_COUNT: NANO}
        for each in obj.devices:
            amounts[each.device_class + _CLASS_SUFFIX] = each.count * NANO
        charged = _charged_to_pod(key, obj, view, now)
        for name, nano in self._extended(obj.devices).items():
            rest = nano - charged.get(name, 0)
            if rest > 0:
                amounts[name] = amounts.get(name, 0) + rest
        return contribution_of(usage_of({name: Quantity(nano) for name, nano in amounts.items()}))

    def _extended(self, devices: Iterable[DeviceCount]) -> Mapping[str, int]:
        """
        Give the nano amounts under extended names, before a pod's share is taken off (RQ-183).

        Classes that declare the same extended resource are added up (D-10).
        """
        amounts: dict[str, int] = {}
        for each in devices:
            if not each.device_class:
                continue
            explicit = self._device_classes.explicit_name(each.device_class)
            for extended in (IMPLICIT_PREFIX + each.device_class, explicit):
                if extended:
                    name = REQUESTS_PREFIX + extended
                    amounts[name] = amounts.get(name, 0) + each.count * NANO
        return amounts


def _charged_to_pod(key: Key, claim: ResourceClaim, view: View, now: float) -> Mapping[str, int]:
    """Give the nano amounts that the claim's verified pod is charged at `now` (RQ-184, RQ-191)."""
    pod = _verified_pod(key, claim, view)
    if pod is None:
        return {}
    return {name: nano for name, nano, _ in pod.contribution(now).usage}


def _verified_pod(key: Key, claim: ResourceClaim, view: View) -> Pod | None:
    """Give the pod whose extended resources this claim provides, beyond doubt (RQ-190, RQ-193)."""
    if claim.owner is None:
        return None
    try:
        pod = view.of(POD, Pod).get(claim.owner.name, key.namespace)
    except Undecodable:
        return None
    if pod is None or pod.uid != claim.owner.uid:
        return None
    if pod.extended_claim is not None:
        return pod if pod.extended_claim == key.name else None
    return pod if _is_first(key, claim, view) else None


def _is_first(key: Key, claim: ResourceClaim, view: View) -> bool:
    """Say whether no other claim of the same pod is older, or as old with a lower name."""
    own = (claim.created, key.name)
    others = view.of(RESOURCE_CLAIM, ResourceClaim)
    return all(
        own <= (other.created, other_key.name)
        for value in by_pod_uid(key, claim)
        for other_key, other in others.by_index(BY_POD_UID, value)
    )
