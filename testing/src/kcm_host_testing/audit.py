"""Reads an API server's audit log: what was asked, by whom, and how it was answered."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

POLICY = json.dumps(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
)
"""The audit policy that gives one line for each answer, without bodies."""

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Entry:
    """One answered request; a watch has two: when it begins and when it ends."""

    verb: str
    user: str
    user_agent: str
    resource: str
    subresource: str
    group: str
    namespace: str
    name: str
    code: int
    uri: str
    stage: str
    time: datetime
    """When the server received the request."""


class AuditLog:
    """
    The audit log of one API server.

    The server writes an entry just *after* it has answered, so a test that has its answer may
    look a moment too early: ask with `wait_for` or `wait_until_quiet`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The place where the log ends now, for `since`."""
        return self.path.stat().st_size if self.path.exists() else 0

    def entries(self, *, since: int = 0, user_agent: str = "") -> list[Entry]:
        """All entries after a mark whose user agent begins with `user_agent`, oldest first."""
        found = [_entry(json.loads(line)) for line in self._lines(since)]
        return [entry for entry in found if entry.user_agent.startswith(user_agent)]

    def writes(self, *, since: int = 0, user_agent: str = "") -> list[Entry]:
        """The entries that create, change or delete, refused ones included."""
        entries = self.entries(since=since, user_agent=user_agent)
        return [entry for entry in entries if entry.verb in WRITE_VERBS]

    def wait_for(
        self, match: Callable[[Entry], bool], *, since: int = 0, timeout_seconds: float = 60.0
    ) -> Entry:
        """The first entry that matches; `TimeoutError` when none comes in time."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            for entry in self.entries(since=since):
                if match(entry):
                    return entry
            if time.monotonic() > deadline:
                raise TimeoutError(f"no matching audit entry within {timeout_seconds:g} s")
            time.sleep(POLL_SECONDS)

    def wait_until_quiet(
        self,
        quiet_seconds: float,
        *,
        timeout_seconds: float,
        user_agent: str = "",
        since: int = 0,
    ) -> list[Entry]:
        """
        Return when clients with this user agent have written nothing for `quiet_seconds`.

        Between two looks at the log no more than two poll intervals count: where this process is
        kept waiting by a busy machine, the clients are too, and the quiet says less about them.
        Gives their writes since the mark. `TimeoutError` names the last one when they never rest.
        """
        start = looked = time.monotonic()
        quiet = 0.0
        writes = self.writes(since=since, user_agent=user_agent)
        while quiet < quiet_seconds:
            if time.monotonic() - start > timeout_seconds:
                raise TimeoutError(
                    f"'{user_agent}*' still writes after {timeout_seconds:g} s; "
                    f"last of {len(writes)}: {writes[-1] if writes else None}"
                )
            time.sleep(POLL_SECONDS)
            now = self.writes(since=since, user_agent=user_agent)
            passed, looked = time.monotonic() - looked, time.monotonic()
            quiet += min(passed, 2 * POLL_SECONDS)
            if len(now) != len(writes):
                writes, quiet = now, 0.0
        return writes

    def _lines(self, since: int) -> list[bytes]:
        """Complete lines only: the last may be half written."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(since)
            return log.read().split(b"\n")[:-1]


def _entry(raw: dict[str, Any]) -> Entry:
    target = raw.get("objectRef") or {}
    return Entry(
        verb=raw["verb"],
        user=raw["user"].get("username", ""),
        user_agent=raw.get("userAgent", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        group=target.get("apiGroup", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(raw.get("responseStatus") or {}).get("code", 0),
        uri=raw["requestURI"],
        stage=raw["stage"],
        time=datetime.fromisoformat(raw["requestReceivedTimestamp"]),
    )
