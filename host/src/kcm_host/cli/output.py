"""Tables for people and JSON for scripts, from the same rows."""

import json
import sys
from typing import Any

import click

STATE_COLOURS = {"ok": "green", "quarantined": "red"}


class Table:
    """Rows under column names; a script gets them as a list of objects."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.rows: list[tuple[Any, ...]] = []

    def add(self, *cells: object) -> None:
        """Add a row, a cell for each column."""
        self.rows.append(cells)


def show(table: Table, output: str) -> None:
    """Print a table: coloured on a terminal, plain when piped, or as JSON."""
    if output == "json":
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        click.echo(json.dumps(rows, indent=2, default=str))
    elif sys.stdout.isatty():
        _show_rich(table)
    else:
        _show_plain(table)


def _show_rich(table: Table) -> None:
    # Only a person at a terminal pays for the import.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.table import Table as RichTable  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    drawn = RichTable(box=None, header_style="bold", pad_edge=False)
    for column in table.columns:
        drawn.add_column(column.upper(), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(_text(cell), style=STATE_COLOURS.get(str(cell), "")) for cell in row))
    Console().print(drawn)


def _show_plain(table: Table) -> None:
    lines = [tuple(column.upper() for column in table.columns)]
    lines += [tuple(_text(cell) for cell in row) for row in table.rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(table.columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)
