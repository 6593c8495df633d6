"""How one log record becomes one line, for people or for machines."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kcm_host.observe.printable import printable
from kcm_host.observe.trace_context import trace_pairs

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
