"""Shows results: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table

from bench.candidates import OURS, Against
from bench.result import Result, Row, Spread
from bench.workload import Unit

WIDTH = 150


def as_table(results: Sequence[Result]) -> str:
    """Return one table for each workload, with a line on what else the machine did."""
    shown = StringIO()
    colours = sys.stdout.isatty()
    console = Console(file=shown, width=WIDTH, highlight=False, force_terminal=colours)
    for result in results:
        console.print(_table(result))
        console.print(_disturbance(result) + "\n")
    return shown.getvalue()


def as_json(results: Sequence[Result]) -> str:
    """Return all rows with every single value, in seconds, bytes and counts."""
    return json.dumps([_plain(result) for result in results], indent=2)


def _table(result: Result) -> Table:
    title = f"{result.workload.name}: {result.workload.title}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    table.add_column("quantity", min_width=28)
    for column in (_heading(result), OURS, "ratio", "goal"):
        table.add_column(column, justify="right", min_width=8)
    table.add_column("")
    for row in result.rows:
        table.add_row(*_cells(row))
    return table


def _heading(result: Result) -> str:
    against = result.workload.against
    return "" if against is Against.NOBODY else against


def _cells(row: Row) -> tuple[str, ...]:
    unit = row.quantity.unit
    goal = "" if row.quantity.goal is None else f"{row.quantity.goal:g}"
    if row.quantity.alone:
        goal = f"ours {goal}"
    verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[row.met]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    bare = unit in (Unit.COUNT, Unit.FACTOR, Unit.SHARE)
    title = row.quantity.name if bare else f"{row.quantity.name} ({unit})"
    other = "" if row.other is None else _range(row.other, unit)
    return title, other, _range(row.ours, unit), ratio, goal, verdict


def _range(spread: Spread, unit: Unit) -> str:
    median, lowest, highest = (
        _number(value, unit) for value in (spread.median, spread.lowest, spread.highest)
    )
    return rf"{median} \[{lowest}..{highest}]"


def _number(value: float, unit: Unit) -> str:
    match unit:
        case Unit.SECONDS:
            return f"{value:.{5 if value < 0.01 else 3 if value < 1 else 2}f}"
        case Unit.BYTES:
            return f"{value / 2**20:.1f}"
        case Unit.COUNT:
            return f"{value:.0f}"
        case Unit.FACTOR:
            return f"{value:.1f}"
        case Unit.SHARE:
            return f"{value:.0%}"


def _disturbance(result: Result) -> str:
    share, (before, after) = result.others_share, result.machine
    return (
        f"others used {share.median:.0%} of a core, {share.highest:.0%} at the most; "
        f"load1 {before.load1:.1f} before, {after.load1:.1f} after; "
        f"calibration {before.calibration * 1000:.1f} and {after.calibration * 1000:.1f} ms"
    )


def _plain(result: Result) -> dict[str, object]:
    return {
        "workload": result.workload.name,
        "title": result.workload.title,
        "against": result.workload.against,
        "othersShare": result.others_share.values,
        "machine": [condition._asdict() for condition in result.machine],
        "rows": [
            {
                "quantity": row.quantity.name,
                "unit": "bytes" if row.quantity.unit is Unit.BYTES else row.quantity.unit,
                "other": row.other.values if row.other else None,
                "ours": row.ours.values,
                "ratio": row.ratio,
                "goal": row.quantity.goal,
                "goalIsForOursAlone": row.quantity.alone,
                "met": row.met,
            }
            for row in result.rows
        ],
    }
