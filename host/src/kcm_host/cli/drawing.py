"""Tables and lists of facts on a terminal, with colours."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kcm_host.cli.output import GAP

STATE_COLOURS = {"ok": "green", "quarantined": "red"}


def width() -> int:
    """Return the number of characters in a line."""
    return Console().width


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their columns; the last column wraps."""
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for column in columns:
        drawn.add_column(column.upper(), no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        drawn.add_row(*map(_coloured, row))
    Console(highlight=False).print(drawn)


def lists(records: Iterable[Mapping[str, str]]) -> None:
    """Print each record as a list of facts, a blank line between them."""
    console = Console(highlight=False)
    for number, facts in enumerate(records):
        console.print("\n" if number else "", end="")
        drawn = Table.grid(padding=(0, GAP, 0, 0))
        drawn.add_column(no_wrap=True, style="bold")
        drawn.add_column(overflow="fold")
        for name, text in facts.items():
            drawn.add_row(name, _coloured(text))
        console.print(drawn)


def _coloured(cell: str) -> Text:
    return Text(cell, style=STATE_COLOURS.get(cell, ""))
