"""What a proxy of faults can do to a request, and to which requests it does it."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the proxy got it, and how it was answered so far."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    time: datetime
    status: int | None = None
    """The status that went to the client; None while none did, and for good after a cut."""
    lines: int = 0
    """How many lines of the answer's body went to the client, counted for watches and rules."""
    open: bool = True
    """Return whether the exchange still goes on."""

    @property
    def user_agent(self) -> str:
        """The client's name for itself; empty when it gave none."""
        return self.headers.get("user-agent", "")

    @property
    def watch(self) -> bool:
        """Return whether this asks for a watch."""
        return self.query.get("watch") in {"1", "true", "True"}


class Point(Enum):
    """A moment before the answer."""

    REQUEST = "request"
    """Before the server sees the request: nothing happens there."""
    ANSWER = "answer"
    """After the server answered, before the client gets a byte: a write has happened."""


@dataclass(frozen=True, slots=True)
class AfterLines:
    """The moment after so many lines of the body; 0 is after the headers."""

    lines: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The proxy answers itself, and the server sees nothing."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """The client's connection is closed without a proper end."""

    at: Point | AfterLines = Point.REQUEST


@dataclass(frozen=True, slots=True)
class Stall:
    """No further byte comes and nothing is closed, until `Rule.remove`."""

    at: Point | AfterLines = Point.REQUEST


@dataclass(frozen=True, slots=True)
class Delay:
    """The request waits before the server sees it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rewrite:
    """
    Each line of the answer's body is replaced; None leaves it out.

    The line comes and goes without its line end: an event of a watch, or a whole JSON answer.
    """

    line: Callable[[bytes], bytes | None]


Fault = Answer | Cut | Stall | Delay | Rewrite


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests are meant; what is left out does not matter."""

    method: str | None = None
    path: str | None = None
    """A regular expression that is found somewhere in the path."""
    query: Mapping[str, str] | None = None
    """Parameters that are there with exactly these values."""
    when: Callable[[Request], bool] | None = None

    def __call__(self, request: Request) -> bool:
        """Return whether a request is meant."""
        return (
            (self.method is None or self.method == request.method)
            and (self.path is None or re.search(self.path, request.path) is not None)
            and (self.query is None or self.query.items() <= request.query.items())
            and (self.when is None or self.when(request))
        )


class ActiveRule:
    """A rule inside the proxy; touched by the proxy's thread alone."""

    def __init__(self, fault: Fault, match: Match, times: int | None) -> None:
        self.fault = fault
        self.match = match
        self.left = times
        self.hits = 0
        self.released = asyncio.Event()

    def takes(self, request: Request) -> bool:
        """Return whether this request falls under the rule; if so it is counted."""
        if self.released.is_set() or self.left == 0 or not self.match(request):
            return False
        self.hits += 1
        if self.left is not None:
            self.left -= 1
        return True
