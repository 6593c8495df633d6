"""The controller's own metrics (RC-75, RC-76)."""

from collections import Counter

from kcm_host.api import Key, Kind, Metric
from kcm_host_resourceclaim.models.claim import Claim

CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"
CLAIMS = "dynamic_resource_allocation_resource_claims"


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
    return str(value).lower()


def _series(
    names: tuple[str, ...],
    counts: Counter[tuple[str, str, str, str]] | Counter[tuple[str, str, str]],
) -> tuple[tuple[dict[str, str], float], ...]:
    return tuple((dict(zip(names, values, strict=True)), n) for values, n in counts.items())
