"""The five controllers, as both sides and the API server know them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """What the suite has to know of a controller."""

    upstream: str
    """How the reference's `--controllers` calls it."""
    account: str
    """The service account in kube-system as which it writes, on both sides."""
    follows: tuple[str, ...]
    """Resources whose watches must be open before a scenario's steps begin."""
    reference_follows: tuple[str, ...] = ()
    """Further ones that the reference alone waits for before it does anything."""


CONTROLLERS = {
    "ttl": Known("ttl-controller", "ttl-controller", ("nodes",)),
    "clusterrole-aggregation": Known(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        ("clusterroles",),
    ),
    "servicecidrs": Known(
        "service-cidr-controller", "service-cidrs-controller", ("servicecidrs", "ipaddresses")
    ),
    "resourceclaim": Known(
        "resourceclaim-controller",
        "resource-claim-controller",
        ("pods", "resourceclaims", "resourceclaimtemplates"),
    ),
    "resourcequota": Known(
        "resourcequota-controller",
        "resourcequota-controller",
        ("resourcequotas",),
        # It follows all resources; the host those that a quota mentions.
        (
            *("pods", "services", "configmaps", "secrets", "persistentvolumeclaims"),
            *("deployments", "replicationcontrollers", "resourceclaims", "deviceclasses"),
        ),
    ),
}

_OF_USER = {
    f"system:serviceaccount:kube-system:{known.account}": name
    for name, known in CONTROLLERS.items()
}


def controller_of(user: str) -> str | None:
    """Return the controller that writes as this user; None for everybody else."""
    return _OF_USER.get(user)
