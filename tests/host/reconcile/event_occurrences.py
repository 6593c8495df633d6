"""Event occurrences about a node, for tests."""

from typing import Any

from host.reconcile.worker_rig import NODE

from kcm_host.api.kinds import Key
from kcm_host.reconcile.event_correlator import EventOccurrence

SECOND = 1_000_000_000
#: 2026-11-21T07:50:01Z.
AT = 1_795_247_401 * SECOND + 123_456_789


def occurrence(message: str = "no space left", **fields: Any) -> EventOccurrence:
    """Return a warning about node `n1`, some fields of it others."""
    usual: dict[str, Any] = {
        "kind": NODE,
        "key": Key("n1"),
        "uid": "u-1",
        "version": "7",
        "reason": "Full",
        "warning": True,
        "component": "acme-controller",
        "at": AT,
    }
    return EventOccurrence(**{**usual, "message": message, **fields})
