"""Tables for people and JSON for scripts, from the same records."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

Record = Mapping[str, Any]

STATE_COLOURS = {"ok": "green", "quarantined": "red"}
GAP = 2
#: The last column of a table wraps; with less room than this a record is shown as a list of facts.
NARROWEST = 24


def colours() -> Literal[False] | None:
    """False when the user wants none; None: wherever there is a terminal."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def show_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


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
    # Only a person at a terminal pays for the import.
    from rich.console import Console  # noqa: PLC0415 - see above

    console = Console(highlight=False)
    if _fits(columns, rows, console.width):
        _print_table(console, columns, rows)
    else:
        for number, row in enumerate(rows):
            console.print("\n" if number else "", end="")
            _print_facts(console, dict(zip(columns, row, strict=True)))


def show_facts(record: Record) -> None:
    """Print one record, a fact a line."""
    facts = {name: _text(value) for name, value in record.items()}
    if not _on_terminal():
        width = max(map(len, facts))
        for name, text in facts.items():
            click.echo(f"{name.ljust(width)}  {text}".rstrip())
        return
    from rich.console import Console  # noqa: PLC0415 - as above

    _print_facts(Console(highlight=False), facts)


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]


def _fits(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    *fixed, last = _widths(columns, rows)
    return sum(fixed) + GAP * len(fixed) + min(last, NARROWEST) <= width


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = _widths(columns, rows)
    for line in (tuple(column.upper() for column in columns), *rows):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo((" " * GAP).join(cells).rstrip())


def _print_table(console: "Console", columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table  # noqa: PLC0415 - for people only
    from rich.text import Text  # noqa: PLC0415 - for people only

    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for column in columns:
        drawn.add_column(column.upper(), no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell, style=STATE_COLOURS.get(cell, "")) for cell in row))
    console.print(drawn)


def _print_facts(console: "Console", facts: Mapping[str, str]) -> None:
    from rich.table import Table  # noqa: PLC0415 - for people only
    from rich.text import Text  # noqa: PLC0415 - for people only

    drawn = Table.grid(padding=(0, GAP, 0, 0))
    drawn.add_column(no_wrap=True, style="bold")
    drawn.add_column(overflow="fold")
    for name, text in facts.items():
        drawn.add_row(name, Text(text, style=STATE_COLOURS.get(text, "")))
    console.print(drawn)


def _text(cell: object) -> str:
    match cell:
        case None:
            return ""
        case list() | tuple():
            return ", ".join(map(str, cell))
        case _:
            return str(cell)
