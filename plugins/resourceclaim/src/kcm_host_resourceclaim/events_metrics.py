"""
The texts of Events with the errors that carry them (RC-70), and the metrics (RC-75, RC-76).

Users and their tools read both, so both have the words of kube-controller-manager.
"""

from collections import Counter

from kcm_host.api import ApiError, HostError, Key, Kind, Metric, Unreachable
from kcm_host_resourceclaim.models.claim import Claim

CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"
CLAIMS = "dynamic_resource_allocation_resource_claims"
CHECKING = "checking for claim before creating it: "
UNSUPPORTED_ENTRY = (
    "entry '{entry}' of resourceClaims: none of the supported fields are set; "
    "set 'resourceClaimName' or 'resourceClaimTemplateName'"
)
NO_TEMPLATE = (
    'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
)
NO_ADMIN_ACCESS = "admin access is requested, but the feature is disabled"
NO_PRIORITIZED_LIST = (
    "template includes a prioritized list of subrequests, but the feature is disabled"
)
# The gap is where a name would stand; claims made from templates get theirs from the server.
CREATE = "create ResourceClaim : "
NO_WORKLOAD_CLAIMS = (
    "claim {entry} is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
)
NO_GENERIC_WORKLOAD = "Pod is a member of PodGroup {group} but GenericWorkload feature is disabled"
NO_RESPONSE = "the API server did not answer"
NO_POD_GROUP = "podgroup '{group}' in namespace '{namespace}' is not there; the pod waits for it"
INVALID_TEMPLATE = "the claim cannot be made from the template, correct it: {kind}: {error}"


class ReconcileError(Exception):
    """A claim cannot be made or reserved now; the sync is retried."""


class TerminalError(ReconcileError):
    """A claim cannot be made with these settings; the sync is not retried (RC-31)."""


def event_message(error: Exception) -> str:
    """Return the text of an Event about a claim that cannot be made."""
    match error:
        case HostError():
            return server_message(error)
        case ReconcileError():
            return str(error)
        case _:
            return INVALID_TEMPLATE.format(kind=type(error).__name__, error=error)


def server_message(error: HostError) -> str:
    """
    Return the message of the server, for users of one namespace.

    Texts of the transport, or of a proxy, are left out: they contain internal addresses.
    """
    if isinstance(error, Unreachable):
        return NO_RESPONSE
    if isinstance(error, ApiError):
        return error.server_message or f"{NO_RESPONSE} as expected, but with status {error.status}"
    return str(error)


class CreationCounter:
    """The number of create requests that were sent (RC-75)."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def increment(self, owner: Kind, *, success: bool, admin_access: bool) -> None:
        """Count one request for a claim whose owner is an object of this kind."""
        status = "success" if success else "failure"
        self._counts[status, _text(admin_access), owner.group, owner.name] += 1

    def metric(self) -> Metric:
        """Return the counter with all its series."""
        names = ("status", "admin_access", "owner_api_group", "owner_api_kind")
        return Metric(
            name=CREATES,
            help="Number of ResourceClaims creation requests, by result and owner.",
            type="counter",
            series=_series(names, self._counts),
        )


class ClaimCounts:
    """
    Running counts of the claims by state and source (RC-76), so that a scrape iterates over none.

    The labels of each claim are stored: a deletion may deliver a newer state than the counted one.
    """

    def __init__(self) -> None:
        self._labels: dict[Key, tuple[str, str, str]] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._shared: dict[tuple[str, str, str], tuple[str, str, str]] = {}

    def update(self, key: Key, claim: Claim | None) -> None:
        """Count a claim in its present state; None: it was deleted."""
        before = self._labels.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if claim is not None:
            admin = _text(claim.spec.has_admin_access)
            now = (_text(claim.allocated), admin, source(claim))
            # One tuple for all claims with the same labels.
            self._labels[key] = self._shared.setdefault(now, now)
            self._counts[now] += 1

    def metric(self) -> Metric:
        """Return the number of claims by labels; series of zero are left out."""
        return Metric(
            name=CLAIMS,
            help="Number of ResourceClaims, by allocation, admin access and source.",
            type="gauge",
            series=_series(("allocated", "admin_access", "source"), self._counts),
        )


def source(claim: Claim) -> str:
    """Return the reason why a claim exists: an extended resource, a template, or "" if unknown."""
    annotations = claim.metadata.annotations
    if annotations.extended_resource == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.pod_claim_name else ""


def _text(value: bool) -> str:
    return "true" if value else "false"


def _series(
    names: tuple[str, ...],
    counts: Counter[tuple[str, str, str, str]] | Counter[tuple[str, str, str]],
) -> tuple[tuple[dict[str, str], float], ...]:
    return tuple((dict(zip(names, values, strict=True)), n) for values, n in counts.items())
