"""What a program asked of the API server, read from the audit log as it grows."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

_COMPLETE = b'"stage":"ResponseComplete"'
WRITE_VERBS = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Request:
    """One answered request, or a watch that has begun; times are those of the clock."""

    verb: str
    resource: str
    name: str
    code: int
    received_at: float
    answered_at: float

    @property
    def writes(self) -> bool:
        """Return whether it was meant to change something."""
        return self.verb in WRITE_VERBS


class Trail:
    """
    The requests of one program for some resources, from now on.

    Each line is read once and parsed only when it is the program's, so following a log of
    thousands of lines takes nothing from those who are measured.
    """

    def __init__(self, log: Path, *, user_agent: str, resources: frozenset[str]) -> None:
        self.requests: list[Request] = []
        self.writes: list[Request] = []
        """The writes so far, refused ones included."""
        self._log = log
        self._agent = f'"userAgent":"{user_agent}'.encode()
        self._resources = resources
        self._offset = log.stat().st_size if log.exists() else 0
        self._half = b""

    def read(self) -> bool:
        """Take in what the log has more; say whether the program wrote in it."""
        before = len(self.writes)
        for line in self._lines():
            # A watch has two lines; the one of its end may come from an earlier run.
            if self._agent in line and not (b'"verb":"watch"' in line and _COMPLETE in line):
                request = _request(json.loads(line))
                if request.resource in self._resources:
                    self.requests.append(request)
                    if request.writes:
                        self.writes.append(request)
        return len(self.writes) > before

    def _lines(self) -> list[bytes]:
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._offset)
            new = log.read()
        self._offset += len(new)
        *lines, self._half = (self._half + new).split(b"\n")
        return lines


def _request(raw: dict[str, Any]) -> Request:
    target = raw.get("objectRef") or {}
    return Request(
        verb=raw["verb"],
        resource=target.get("resource", ""),
        name=target.get("name", ""),
        code=(raw.get("responseStatus") or {}).get("code", 0),
        received_at=datetime.fromisoformat(raw["requestReceivedTimestamp"]).timestamp(),
        answered_at=datetime.fromisoformat(raw["stageTimestamp"]).timestamp(),
    )
