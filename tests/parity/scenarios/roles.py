"""Requests about ClusterRoles, for the scenarios that need some."""

from collections.abc import Mapping, Sequence
from typing import Any

from parity.steps import Ask, create, patch

Rule = dict[str, Any]
Selector = dict[str, Any]


def rule(resource: str, *verbs: str) -> Rule:
    """Return a rule about one resource of the core group; to get it when no verb is given."""
    return {"verbs": list(verbs) or ["get"], "apiGroups": [""], "resources": [resource]}


R1, R2, R3, R5, R9 = map(rule, ("pods", "nodes", "secrets", "configmaps", "services"))


def role(
    name: str,
    *rules: Rule,
    labels: Mapping[str, str] | None = None,
    selectors: Sequence[Selector] | None = None,
) -> Ask:
    """Create a role; with selectors it is aggregated. Label keys become its scenario's own."""
    body: dict[str, Any] = {"metadata": {"labels": own(labels or {})}, "rules": list(rules) or None}
    if selectors is not None:
        body["aggregationRule"] = {"clusterRoleSelectors": list(selectors)}
    return create(f"clusterroles/${name}", body)


def edit(name: str, **fields: Any) -> Ask:
    """Merge fields into a role."""
    return patch(f"clusterroles/${name}", fields)


def relabel(name: str, **labels: str | None) -> Ask:
    """Set or remove labels of a role."""
    return edit(name, metadata={"labels": own(labels)})


def own(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return labels with keys of the scenario's own, unless they have a prefix already."""
    return {key if "/" in key else f"${key}": value for key, value in labels.items()}


def having(**labels: str) -> Selector:
    """Return the selector of roles with these labels."""
    return {"matchLabels": own(labels)}


def where(*requirements: tuple[str, str] | tuple[str, str, list[str]]) -> Selector:
    """Return a selector of expressions: (key, operator) or (key, operator, values)."""
    made = [
        {"key": f"${key}", "operator": operator, **({"values": rest[0]} if rest else {})}
        for key, operator, *rest in requirements
    ]
    return {"matchExpressions": made}
