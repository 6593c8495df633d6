"""Resource quotas, and what a watch shows of them while somebody writes their status."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from bench.calls import Call
from bench.following import Following
from bench.outcome import require
from bench.pods import NAMESPACES
from bench.stage import Stage

ALL = "/api/v1/resourcequotas"

_parse: Callable[[str], Decimal] = parse_quantity

Amounts = Mapping[str, Decimal]
"""What is used of each resource that a quota limits."""


def creation(namespace: str, name: str, spec: Mapping[str, Any]) -> Call:
    """Return the request that creates a quota."""
    body = {"metadata": {"name": name}, "spec": spec}
    return Call("POST", f"{NAMESPACES}/{namespace}/resourcequotas", body)


def deletion(namespace: str, name: str) -> Call:
    """Return the request that removes a quota."""
    return Call("DELETE", f"{NAMESPACES}/{namespace}/resourcequotas/{name}")


def used(quota: Mapping[str, Any]) -> Amounts:
    """Return what the status of a quota says; nothing as long as it has none."""
    shown = quota.get("status", {}).get("used", {})
    return {resource: _parse(amount) for resource, amount in shown.items()}


def all_right(following: Following, wanted: Mapping[str, Amounts]) -> bool:
    """Return whether the newest that was seen of each quota, by `namespace/name`, is right."""
    newest = following.newest
    return all(name in newest and used(newest[name]) == wanted[name] for name in wanted)


def require_right(stage: Stage, wanted: Mapping[str, Amounts], *, who: str) -> None:
    """Raise `WrongOutcome` unless these quotas, by `namespace/name`, are right and complete."""
    listed: Sequence[Mapping[str, Any]] = stage.calls.one(Call("GET", ALL))["items"]
    wrong = [
        f"{name} says {_plain(used(quota))}, not {_plain(wanted[name])}"
        for quota in listed
        if used(quota) != wanted[(name := key(quota))]
        or quota["status"].get("hard") != quota["spec"]["hard"]
    ]
    require(len(listed) == len(wanted), f"{who}: {len(listed)} quotas, not {len(wanted)}")
    require(not wrong, f"{who}: {'; '.join(wrong)}")


def key(thing: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object."""
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def _plain(amounts: Amounts) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in sorted(amounts.items())}
