"""What a scenario does, as values that say when printed what they do."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Body = Mapping[str, Any]
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the API server, about the object that `ref` names."""

    verb: Literal["create", "patch", "apply", "delete"]
    ref: str
    body: Any = None
    subresource: str = ""
    manager: str = ""

    def __str__(self) -> str:
        what = f"{self.ref}/{self.subresource}" if self.subresource else self.ref
        body = "" if self.body is None else f" {json.dumps(self.body)}"
        manager = f" as {self.manager}" if self.manager else ""
        return f"{self.verb} {what}{manager}{body}"


@dataclass(frozen=True, slots=True)
class Together:
    """Requests in any order, several at a time: only for objects that do not know each other."""

    asks: tuple[Ask, ...]

    def __str__(self) -> str:
        if len(self.asks) < 3:
            return "; ".join(map(str, self.asks))
        return f"{len(self.asks)} at a time: {self.asks[0]} ... {self.asks[-1].ref}"


@dataclass(frozen=True, slots=True)
class Refuse:
    """
    From now on the controllers' writes of this object are answered so, and never arrive.

    Needs a cluster with `proxied=True`.
    """

    ref: str
    status: int
    times: int
    subresource: str = ""
    method: str = "PATCH"

    def __str__(self) -> str:
        what = f"{self.ref}/{self.subresource}" if self.subresource else self.ref
        return f"answer the next {self.times} {self.method} of {what} with {self.status}"


@dataclass(frozen=True, slots=True)
class Quiet:
    """Wait until the controllers have stopped writing."""

    def __str__(self) -> str:
        return "wait until quiet"


@dataclass(frozen=True, slots=True)
class Look:
    """
    Wait until quiet, and keep the objects as they are then under this title.

    With `only`, those whose reference begins so: where the others are too many to be of interest.
    """

    title: str
    only: str = ""

    def __str__(self) -> str:
        return f"wait until quiet and look: {self.title}"


@dataclass(frozen=True, slots=True)
class Wait:
    """
    Let this much time pass, then wait until quiet: for what goes by the clock.

    With `assumes`, the looks between the first deletion of an object of `since` and this step show
    what they shall only if they come within so many seconds. The scenario is played again when
    they did not. No part of what a recording remembers.
    """

    seconds: float
    assumes: float | None = field(default=None, repr=False, compare=False)
    since: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return f"wait {self.seconds:g} s"


class Machine(Enum):
    """What happens to the controllers or the API server, and so to every scenario on it."""

    STOP = "stop the controllers"
    KILL = "kill the controllers"
    START = "start the controllers"
    RESTART_SERVER = "restart the API server"
    EXPIRE = "expire the watches"

    def __str__(self) -> str:
        return self.value


Step = Ask | Together | Refuse | Quiet | Look | Wait | Machine
RESTART = (Machine.STOP, Machine.START)


def create(ref: str, body: Body | None = None) -> Ask:
    """Create it; apiVersion, kind, name and namespace are added to the body."""
    return Ask("create", ref, dict(body or {}))


def patch(ref: str, body: Body) -> Ask:
    """Merge this into it (JSON merge patch)."""
    return Ask("patch", ref, dict(body))


def status(ref: str, body: Body) -> Ask:
    """Merge this into its status."""
    return Ask("patch", ref, {"status": dict(body)}, subresource="status")


def apply(ref: str, body: Body, *, manager: str) -> Ask:
    """Apply this as another field manager, by force."""
    return Ask("apply", ref, dict(body), manager=manager)


def delete(ref: str, *, grace_seconds: int | None = None) -> Ask:
    """Delete it."""
    return Ask(
        "delete", ref, None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
    )


def bind(pod: str, node: str) -> Ask:
    """Bind a pod to a node, which need not exist."""
    return Ask("create", pod, {"target": {"kind": "Node", "name": node}}, subresource="binding")


def together(asks: Iterable[Ask]) -> Together:
    """Return these requests as one step."""
    return Together(tuple(asks))
