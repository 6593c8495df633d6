"""Logging: one formatter for text and JSON, and its set-up."""

import json
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

from kcm_host.observe.escaping import printable


class SpanIds(msgspec.Struct, frozen=True, gc=False):
    """The ids of a span, and whether it is recorded."""

    trace_id: int
    span_id: int
    sampled: bool


#: The innermost span of the host's own, None outside of syncs and while tracing is off.
_current: ContextVar[SpanIds | None] = ContextVar("kcm_host_span", default=None)


def enter_span(ids: SpanIds) -> Token[SpanIds | None]:
    """Make this the current span, and return what `leave_span` needs."""
    return _current.set(ids)


def leave_span(token: Token[SpanIds | None]) -> None:
    """Make the span before this one the current one again."""
    _current.reset(token)


def trace_headers() -> dict[str, str]:
    """Return the header that carries the current span to the server (W3C Trace Context)."""
    ids = _current.get()
    if ids is None:
        return {}
    return {"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.sampled:02x}"}


def trace_pairs() -> dict[str, str]:
    """Return what a log line says of the current span; nothing of one that is not recorded."""
    ids = _current.get()
    if ids is None or not ids.sampled:
        return {}
    return {"trace_id": f"{ids.trace_id:032x}", "span_id": f"{ids.span_id:016x}"}


LEVELS = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}
COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}
RESET = "\x1b[0m"
#: Loggers of this name and below say enough by their events; others are named in the line.
OWN = "kcm_host"


class TextLines(logging.Formatter):
    """
    Lines for people: `2026-11-21T07:50:01.123Z INFO  event  controller=ttl key=n1`.

    Values that would blur the line (blanks, quotes, what is not printable) are quoted as JSON
    strings, so one record is one line whatever it contains. `stacks` appends the traceback of
    an exception, indented, below its line.
    """

    def __init__(self, *, colour: bool = False, stacks: bool = False) -> None:
        super().__init__()
        self._colour = colour
        self._stacks = stacks

    def format(self, record: logging.LogRecord) -> str:
        """Give the line of one record, without the line end."""
        pairs = facts(record)
        if not record.name.startswith(OWN):
            pairs.setdefault("logger", record.name)
        line = f"{stamp(record)} {self._level(record)} {printable(record.getMessage())}"
        if pairs:
            shown_pairs = (f"{printable(name)}={shown(value)}" for name, value in pairs.items())
            line += "  " + " ".join(shown_pairs)
        if self._stacks and has_error(record):
            line += "\n" + indented(self.formatException(record.exc_info or (None, None, None)))
        return line

    def _level(self, record: logging.LogRecord) -> str:
        name = f"{LEVELS.get(record.levelno, record.levelname):<5}"
        colour = COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{colour}{name}{RESET}" if colour else name


class JsonLines(logging.Formatter):
    """
    Lines for machines: one object with `time`, `level`, `logger`, `event` and the pairs.

    A pair named like one of these four gets a trailing underscore. Values that JSON does not
    know are shown as text. `stacks` adds the traceback of an exception as `stack`.
    """

    def __init__(self, *, stacks: bool = False) -> None:
        super().__init__()
        self._stacks = stacks

    def format(self, record: logging.LogRecord) -> str:
        """Give the line of one record, without the line end."""
        line: dict[str, Any] = {
            "time": stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in facts(record).items():
            line[f"{name}_" if name in line else name] = value
        if self._stacks and has_error(record):
            line["stack"] = self.formatException(record.exc_info or (None, None, None))
        return printable(json.dumps(line, default=str, ensure_ascii=False))


def facts(record: logging.LogRecord) -> dict[str, Any]:
    """
    Give the key-value pairs of a record; an exception is the pair `error`, in one line.

    To be called where the record was made: within a sync that is traced, its ids are added.
    """
    given = getattr(record, "kv", None)
    pairs = (
        {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    )
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        pairs.setdefault("error", one_line(error))
    return pairs | trace_pairs()


def one_line(error: BaseException) -> str:
    """Give the type and message of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def stamp(record: logging.LogRecord) -> str:
    """Give the time of a record in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def has_error(record: logging.LogRecord) -> bool:
    """Whether the record was logged with an exception."""
    return bool(record.exc_info and record.exc_info[1])


def shown(value: object) -> str:
    """Give one value as it appears in a line of text."""
    if isinstance(value, str):
        return value if _is_plain(value) else printable(json.dumps(value, ensure_ascii=False))
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return printable(json.dumps(value, default=str, ensure_ascii=False))
    return shown(str(value))


def indented(text: str) -> str:
    """Give every line of a traceback four blanks in front."""
    return "\n".join(f"    {printable(line)}" for line in text.splitlines())


def _is_plain(value: str) -> bool:
    return value.isprintable() and value != "" and not any(c in value for c in ' "=')


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
