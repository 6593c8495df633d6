"""Logging as the host does it: constant events with pairs, one line each, to stderr."""

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Hashable
from typing import Literal, TextIO

from kcm_host.observe.lines import JsonLines, TextLines

#: Libraries whose chatter below a warning concerns nobody who runs a host.
THIRD_PARTY = ("aiohttp", "asyncio", "kubernetes", "opentelemetry", "urllib3")
FACTS_KEPT = 1024

Form = Literal["text", "json"]


class HostHandler(logging.StreamHandler[TextIO]):
    """The one handler of the host; a type of its own so that it can be found again."""


def start_logging(
    level: str = "info", *, form: Form = "text", stream: TextIO | None = None
) -> None:
    """
    Send every record from `level` on to `stream` (stderr when left out), one line each.

    Records carry their pairs as `extra={"kv": {...}}`. Tracebacks are shown at level `debug`
    only. Called again, it replaces what it set up before and leaves foreign handlers alone.
    An unknown level raises `ValueError`.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level '{level}' is unknown; use debug, info, warning or error")
    handler = HostHandler(stream or sys.stderr)
    handler.setFormatter(_formatter(form, handler.stream, stacks=number <= logging.DEBUG))
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, HostHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name in THIRD_PARTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _formatter(form: Form, stream: TextIO, *, stacks: bool) -> logging.Formatter:
    if form == "json":
        return JsonLines(stacks=stacks)
    return TextLines(colour=_takes_colour(stream), stacks=stacks)


def _takes_colour(stream: TextIO) -> bool:
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not refused and stream.isatty()


class OncePerFact:
    """
    Tells news from repetition, so that a lasting fact is logged once and not once a second.

    The last `size` keys are remembered; the one unheard of for longest is forgotten first.
    """

    def __init__(self, size: int = FACTS_KEPT) -> None:
        self._size = size
        self._said: OrderedDict[Hashable, str] = OrderedDict()

    def say(self, key: Hashable, text: str) -> bool:
        """Whether `text` about `key` is new or has changed, and so ought to be logged."""
        known = self._said.pop(key, None) == text
        self._said[key] = text
        if len(self._said) > self._size:
            self._said.popitem(last=False)
        return not known

    def forget(self, key: Hashable) -> bool:
        """End a fact, so that its return is news again; whether there was one."""
        return self._said.pop(key, None) is not None

    def clear(self) -> bool:
        """End all facts; whether there were any."""
        any_said = bool(self._said)
        self._said.clear()
        return any_said
