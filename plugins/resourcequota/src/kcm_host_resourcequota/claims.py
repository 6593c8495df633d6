"""What one resource claim uses."""

from collections.abc import Callable, Iterable, Mapping

from kcm_host.api import Key, Undecodable, View
from kcm_host_resourcequota.claim_model import RESOURCE_CLAIM, DeviceCount, Owner, ResourceClaim
from kcm_host_resourcequota.device_classes import DeviceClasses
from kcm_host_resourcequota.evaluator import Evaluator
from kcm_host_resourcequota.extended_names import (
    IMPLICIT_PREFIX,
    REQUESTS_PREFIX,
    is_extended_request,
)
from kcm_host_resourcequota.oldest_claims import OldestClaims
from kcm_host_resourcequota.pods import POD, Pod
from kcm_host_resourcequota.quantity import NANO, Quantity
from kcm_host_resourcequota.usage import Contribution, contribution_of, usage_of

BY_CLASS = "class"

_COUNT = "count/resourceclaims.resource.k8s.io"
_CLASS_SUFFIX = ".deviceclass.resource.k8s.io/devices"


def by_class(_key: Key, claim: ResourceClaim) -> Iterable[str]:
    """Index claims by the device classes they mention."""
    return [each.device_class for each in claim.devices]


#: What a watch of resource claims needs, for `claims_of_class`.
INDEXES: Mapping[str, Callable[[Key, ResourceClaim], Iterable[str]]] = {BY_CLASS: by_class}


def claims_of_class(view: View, device_class: str) -> list[Key]:
    """Give the claims, of all namespaces, that mention a device class (RQ-B20)."""
    claims = view.of(RESOURCE_CLAIM, ResourceClaim)
    return [key for key, _ in claims.by_index(BY_CLASS, device_class)]


class ClaimEvaluator(Evaluator):
    """Knows what resource claims use (section 11)."""

    resource = "resourceclaims.resource.k8s.io"
    kind = RESOURCE_CLAIM
    model = ResourceClaim

    def __init__(self, device_classes: DeviceClasses, oldest: OldestClaims) -> None:
        self._device_classes = device_classes
        self._oldest = oldest

    def charged_by(self, pod: Key, states: Iterable[Pod | None]) -> set[Key]:
        """Give the claims whose devices a pod is charged for in these states (RQ-B20)."""
        found = {
            self._oldest.of(pod.namespace, each.uid)
            if each.extended_claim is None
            else Key(each.extended_claim, pod.namespace)
            for each in states
            if each is not None
        }
        return {key for key in found if key is not None and key in self._oldest}

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
        charged = self._charged_to_pod(key, obj, view, now)
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

    def _charged_to_pod(
        self, key: Key, claim: ResourceClaim, view: View, now: float
    ) -> Mapping[str, int]:
        """Give what the claim's verified pod is charged at `now`, in nano (RQ-184, RQ-191)."""
        if claim.owner is None:
            return {}
        pod = _owner_of(claim.owner, key.namespace, view)
        # Beyond doubt (RQ-190, RQ-193).
        if pod is None or key not in self.charged_by(Key(claim.owner.name, key.namespace), [pod]):
            return {}
        return {name: nano for name, nano, _ in pod.contribution(now).usage}


def _owner_of(owner: Owner, namespace: str, view: View) -> Pod | None:
    """Give the pod that a claim says to belong to, if there is that very one."""
    try:
        pod = view.of(POD, Pod).get(owner.name, namespace)
    except Undecodable:
        return None
    return pod if pod is not None and pod.uid == owner.uid else None
