"""Output of records: tables for people, JSON for programs."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import click

from kcm_host.observe.logging import printable

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
