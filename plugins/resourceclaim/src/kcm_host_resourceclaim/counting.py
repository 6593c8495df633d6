"""The controller's own metrics (RC-75, RC-76)."""

from collections import Counter
from collections.abc import Iterable

from kcm_host.api import Kind, Metric
from kcm_host_resourceclaim.claim import Claim

CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"
CLAIMS = "dynamic_resource_allocation_resource_claims"


class Creations:
    """Counts the creation requests that were sent (RC-75)."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def count(self, owner: Kind, *, success: bool, admin_access: bool) -> None:
        """Count one request for a claim whose owner is an object of this kind."""
        status = "success" if success else "failure"
        self._counts[status, _text(admin_access), owner.group, owner.name] += 1

    def metric(self) -> Metric:
        """Give the counter with all its series."""
        names = ("status", "admin_access", "owner_api_group", "owner_api_kind")
        return Metric(
            name=CREATES,
            help="Number of ResourceClaims creation requests, by result and owner.",
            type="counter",
            series=_series(names, self._counts),
        )


def claims_metric(claims: Iterable[Claim]) -> Metric:
    """Give how many claims there are, by state and origin; what there is none of is left out."""
    counts = Counter(
        (_text(claim.allocated), _text(claim.spec.asks_for_admin_access), source(claim))
        for claim in claims
    )
    return Metric(
        name=CLAIMS,
        help="Number of ResourceClaims, by allocation, admin access and source.",
        type="gauge",
        series=_series(("allocated", "admin_access", "source"), counts),
    )


def source(claim: Claim) -> str:
    """Say what a claim was made for: an extended resource, a template's entry, or nothing known."""
    annotations = claim.metadata.annotations
    if annotations.extended_resource == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.pod_claim_name else ""


def _text(value: bool) -> str:
    return str(value).lower()


def _series(
    names: tuple[str, ...],
    counts: Counter[tuple[str, str, str, str]] | Counter[tuple[str, str, str]],
) -> tuple[tuple[dict[str, str], float], ...]:
    return tuple((dict(zip(names, values, strict=True)), n) for values, n in counts.items())
