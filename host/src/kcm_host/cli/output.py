"""Output: tables and JSON of records on stdout, errors and warnings on stderr."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NoReturn

import click

from kcm_host.config.errors import ConfigError
from kcm_host.observe.logging import Form, printable, start_logging

Record = Mapping[str, Any]

#: Spaces between columns.
GAP = 2
#: The minimum width of the last column, which wraps; below it each record is a list of facts.
MIN_WIDTH = 24


def colours() -> Literal[False] | None:
    """Return False when the environment disables colours; None: they depend on the terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def show_json(value: object) -> None:
    """Print a value as JSON."""
    text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
    click.echo("\n".join(map(printable, text.split("\n"))))


def show_table(records: Sequence[Record], columns: Sequence[str]) -> None:
    """
    Print these columns of the records, the one with the longest texts last.

    Plain when piped. On a terminal coloured, and where it is too narrow for a table, a list of
    facts for each record.
    """
    rows = [tuple(_text(record[column]) for column in columns) for record in records]
    if not _on_terminal():
        _print_plain(columns, rows)
        return
    drawing = _drawing()
    if _fits(columns, rows, drawing.width()):
        drawing.table(columns, rows)
    else:
        drawing.lists([dict(zip(columns, row, strict=True)) for row in rows])


def show_facts(record: Record) -> None:
    """Print one record, a fact a line."""
    facts = {name: _text(value) for name, value in record.items()}
    if not _on_terminal():
        width = max(map(len, facts))
        for name, text in facts.items():
            click.echo(f"{name.ljust(width)}  {text}".rstrip())
        return
    _drawing().lists([facts])


def _drawing() -> ModuleType:
    """Return the module that draws with rich, which is imported for a terminal only."""
    return import_module("kcm_host.cli.drawing")


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]


def _fits(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    *fixed, last = _widths(columns, rows)
    return sum(fixed) + GAP * len(fixed) + min(last, MIN_WIDTH) <= width


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = _widths(columns, rows)
    for line in (tuple(column.upper() for column in columns), *rows):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo((" " * GAP).join(cells).rstrip())


def _text(cell: object) -> str:
    match cell:
        case None:
            return ""
        case list() | tuple():
            return printable(", ".join(map(str, cell)))
        case _:
            return printable(str(cell))


FAILURE, BAD_CONFIG, INTERRUPTED = 1, 2, 130

log = logging.getLogger(__name__)


def fail(message: object, code: int, *, form: Form = "text") -> NoReturn:
    """Print or log one line for each problem, and exit with `code`; `form` is the log format."""
    if form == "json":
        start_logging(form="json")
    for problem in message.problems if isinstance(message, ConfigError) else (message,):
        if form == "json":
            log.error("kcm-host failed", extra={"kv": {"error": str(problem), "code": code}})
        else:
            _print("error: ", str(problem), colour="red")
    sys.exit(code)


def warn(message: str, *, form: Form = "text") -> None:
    """Print or log a warning; `form` is the log format."""
    if form == "json":
        start_logging(form="json")
        log.warning("config", extra={"kv": {"warning": message}})
    else:
        _print("warning: ", message, colour="yellow")


@contextmanager
def exit_on_error(form: Callable[[], Form]) -> Iterator[None]:
    """
    Turn exceptions of click and the system into one line and an exit code.

    `form` returns the log format, as far as it is known without the settings.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(BAD_CONFIG)
    except click.UsageError as error:
        fail(_usage(error), BAD_CONFIG, form=form())
    except click.ClickException as error:
        fail(error.format_message(), error.exit_code, form=form())
    except click.Abort:
        sys.exit(INTERRUPTED)
    except OSError as error:
        # Files and servers have errors of their own; what is left is an error of the output.
        fail(f"cannot go on: {error.strerror or error}", FAILURE, form=form())


def _print(head: str, text: str, *, colour: str) -> None:
    click.echo(click.style(head, fg=colour, bold=True) + printable(text), err=True, color=colours())


def _usage(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    text = text[:1].lower() + text[1:]
    if text.endswith("?"):  # it names the remedy already
        return text
    path = error.ctx.command_path if error.ctx else "kcm-host"
    return f"{text}; see '{path} --help'"
