"""Logging: formatters for text and JSON, the escape of foreign text, the root logger."""

import json
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from kcm_host.observe.trace_context import trace_pairs

#: Everything but printable ASCII; most texts have no such character.
_NOT_ASCII = re.compile(r"[^ -~]+")


def printable(text: str) -> str:
    r"""
    Return `text` with each unprintable character as an escape of JSON, such as `\n`.

    Names and messages come from users of the cluster and from plugins. A line end in one could fake
    a line of a log or a response, control characters could rewrite a terminal, and bidirectional
    marks could show a line in another order than it has. Separators other than the blank,
    unassigned characters and lone surrogates are escaped too. A backslash is not escaped: inside
    the strings of a JSON text, which escapes it, the result has the same meaning.
    """
    # By the substitution of a pattern, because it is called for every line, and nearly all are
    # plain ASCII.
    return _NOT_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


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
#: The names of other loggers than this one and those below it are shown in the line.
OWN_LOGGER = "kcm_host."

#: The controller whose worker runs, for the log lines of its plugin.
current_controller: ContextVar[str] = ContextVar("kcm_host_controller", default="")


class TextFormatter(logging.Formatter):
    """
    Lines for people: `2026-11-21T07:50:01.123Z INFO  event  controller=ttl key=n1`.

    Values with blanks, quotes or unprintable characters are quoted as JSON strings, so one record
    is one line whatever it contains. `stacks` appends the traceback of an exception, indented,
    below its line.
    """

    def __init__(self, *, colour: bool = False, stacks: bool = False) -> None:
        super().__init__()
        self._colour = colour
        self._stacks = stacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without the line end."""
        pairs = pairs_of(record)
        if not f"{record.name}.".startswith(OWN_LOGGER):
            pairs.setdefault("logger", record.name)
        line = f"{timestamp(record)} {self._level(record)} {printable(record.getMessage())}"
        if pairs:
            formatted = (
                f"{printable(name)}={format_value(value)}" for name, value in pairs.items()
            )
            line += "  " + " ".join(formatted)
        if self._stacks and has_error(record):
            line += "\n" + indented(self.formatException(record.exc_info or (None, None, None)))
        return line

    def _level(self, record: logging.LogRecord) -> str:
        name = f"{LEVELS.get(record.levelno, record.levelname):<5}"
        colour = COLOURS.get(record.levelno, "") if self._colour else ""
        return f"{colour}{name}{RESET}" if colour else name


class JsonFormatter(logging.Formatter):
    """
    Lines for machines: one object with `time`, `level`, `logger`, `event` and the pairs.

    A pair named like one of these four gets a trailing underscore. Values that JSON does not
    have become text. `stacks` adds the traceback of an exception as `stack`.
    """

    def __init__(self, *, stacks: bool = False) -> None:
        super().__init__()
        self._stacks = stacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record, without the line end."""
        line: dict[str, Any] = {
            "time": timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in pairs_of(record).items():
            # A pair of a plugin must not replace the time or the level of the line.
            line[f"{name}_" if name in line else name] = value
        if self._stacks and has_error(record):
            line["stack"] = self.formatException(record.exc_info or (None, None, None))
        return printable(json.dumps(line, default=str, ensure_ascii=False))


def pairs_of(record: logging.LogRecord) -> dict[str, Any]:
    """
    Return the key-value pairs of a record; an exception is the pair `error`, in one line.

    To be called in the context of the log call: in a sync, the controller is added, and the trace
    ids if it is traced.
    """
    values = getattr(record, "kv", None)
    pairs = (
        {str(name): value for name, value in values.items()} if isinstance(values, Mapping) else {}
    )
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        pairs.setdefault("error", one_line(error))
    # From the context of the task: plugins log with any logger and do not know their controller's
    # name (F-71).
    controller = current_controller.get()
    if controller and "controller" not in pairs:
        pairs = {"controller": controller, **pairs}
    return pairs | trace_pairs()


def one_line(error: BaseException) -> str:
    """Return the type and message of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def place_of(error: BaseException, *, module: str) -> str:
    """
    Return the innermost `file:line` of an exception within the top package of `module`.

    Empty when there is none.
    """
    package = module.partition(".")[0]
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            place = f"{frame.f_code.co_filename}:{line}"
    if not place and isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    return place


def timestamp(record: logging.LogRecord) -> str:
    """Return the time of a record in UTC, to the millisecond."""
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def has_error(record: logging.LogRecord) -> bool:
    """Return whether the record was logged with an exception."""
    return bool(record.exc_info and record.exc_info[1])


def format_value(value: object) -> str:
    """Return one value as it is written in a line of text."""
    if isinstance(value, str):
        return value if _is_plain(value) else printable(json.dumps(value, ensure_ascii=False))
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return printable(json.dumps(value, default=str, ensure_ascii=False))
    return format_value(str(value))


def indented(text: str) -> str:
    """Return a traceback with each line indented by four blanks."""
    return "\n".join(f"    {printable(line)}" for line in text.splitlines())


def _is_plain(value: str) -> bool:
    return value.isprintable() and value != "" and not any(c in value for c in ' "=')


#: Libraries whose records below a warning are of no use to operators.
THIRD_PARTY = ("asyncio", "kubernetes", "opentelemetry", "urllib3")

Form = Literal["text", "json"]


class HostHandler(logging.StreamHandler[TextIO]):
    """The handler of the host; its type identifies it among the handlers of the root logger."""


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


def log_warnings() -> None:
    """Log the warnings of Python, which would go to stderr as text of several lines."""
    # The text of several lines would break the promise that each line of stderr is one JSON object
    # (F-63).
    warnings.showwarning = _log_warning


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    pairs = {"warning": f"{category.__name__}: {message}", "at": f"{filename}:{lineno}"}
    logging.getLogger("py.warnings").warning("python warning", extra={"kv": pairs})


def _formatter(form: Form, stream: TextIO, *, stacks: bool) -> logging.Formatter:
    if form == "json":
        return JsonFormatter(stacks=stacks)
    return TextFormatter(colour=_takes_colour(stream), stacks=stacks)


def _takes_colour(stream: TextIO) -> bool:
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not refused and stream.isatty()
