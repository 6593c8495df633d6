"""The boundary table and the reading of annotations, as tables against pure functions."""

import pytest
from plugins.tables import row

from kcm_host_ttl.boundaries import BOUNDARIES, NodeCount, parse_seconds


def counted(*marks: int) -> NodeCount:
    """Return a count that went, node by node, to each of these marks in turn."""
    count = NodeCount()
    for mark in marks:
        while count.nodes < mark:
            count.add()
        while count.nodes > mark:
            count.remove()
    return count


@pytest.mark.parametrize(
    ("marks", "seconds"),
    [
        row("TTL-10: none counted", [], 0),
        row("TTL-T1", [1], 0),
        row("TTL-T3, TTL-24: 100 stays", [100], 0),
        row("TTL-T4, TTL-24: 101 goes up", [101], 15),
        row("TTL-T6, TTL-24: 90 stays", [101, 90], 15),
        row("TTL-T7, TTL-24: 89 goes down", [101, 89], 0),
        row("TTL-T8: up to 100 again", [101, 89, 100], 0),
        row("TTL-T8: up to 101 again", [101, 89, 101], 15),
        row("TTL-T9: 500", [500], 15),
        row("TTL-T9: 501", [501], 30),
        row("TTL-T10: 450", [501, 450], 30),
        row("TTL-T10: 449", [501, 449], 15),
        row("TTL-T11: 1000", [1000], 30),
        row("TTL-T11: 1001", [1001], 60),
        row("TTL-T12: 900", [1001, 900], 60),
        row("TTL-T12: 899", [1001, 899], 30),
        row("TTL-T13: 2000", [2000], 60),
        row("TTL-T13: 2001", [2001], 300),
        row("TTL-T14: 1800", [2001, 1800], 300),
        row("TTL-T14: 1799", [2001, 1799], 60),
        row("TTL-T15, TTL-8: no step above 300", [12000], 300),
        row("down again through every step", [12000, 0], 0),
        row("TTL-82: 95 from below", [95], 0),
        row("TTL-82: 95 from above", [101, 95], 15),
    ],
)
def test_the_number_of_nodes_decides(marks: list[int], seconds: int) -> None:
    """The overlap of two rows is 15 or 0 by the way it was reached (TTL-20, TTL-22, TTL-82)."""
    assert counted(*marks).ttl_seconds == seconds


def test_one_node_moves_one_step_at_most() -> None:
    """A count that is far ahead of its step follows one row for each event (TTL-23)."""
    count = NodeCount()
    count.nodes = 5000
    values = []
    for _ in range(6):
        count.add()
        values.append(count.ttl_seconds)
    assert values == [15, 30, 60, 300, 300, 300]
    count.nodes = 50
    for _ in range(6):
        count.remove()
        values.append(count.ttl_seconds)
    assert values[6:] == [60, 30, 15, 0, 0, 0]


def test_no_sane_count_leaves_the_table() -> None:
    """The first row begins at zero and the last ends at 2^31 - 1, included (TTL-25)."""
    count = counted(2001)
    count.nodes = 2**31 - 2
    count.add()
    assert count.ttl_seconds == 300
    assert (BOUNDARIES[0].size_min, BOUNDARIES[-1].size_max) == (0, 2**31 - 1)


def test_a_node_too_few_is_refused() -> None:
    """A delete at zero changes nothing, least of all to the last row of the table (TTL-29)."""
    count = NodeCount()
    with pytest.raises(ValueError, match="a node was deleted although none was counted"):
        count.remove()
    assert (count.nodes, count.ttl_seconds) == (0, 0)
    count.add()
    assert (count.nodes, count.ttl_seconds) == (1, 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0", 0), ("-0", 0), ("000", 0)),
        *(("15", 15), ("+15", 15), ("015", 15), ("-15", -15)),
        ("+0000000000000000000000015", 15),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_decimal_numbers_are_read(text: str, value: int) -> None:
    """One sign, leading zeros, up to signed 64 bit (TTL-40)."""
    assert parse_seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "abc", "1.5", "15.", "15s", "1e3", "1_000", "0x0f", "0b1", "0o17"),
        *("+", "-", "++1", "+-1", "--1", "1-"),
        *(" 15", "15 ", "15\n", "1 5", "\t15", "15\x00"),
        *("\u0663", "\uff11\uff15", "\u00b2"),
        *("9223372036854775808", "-9223372036854775809", "99999999999999999999"),
    ],
)
def test_anything_else_is_no_number(text: str | None) -> None:
    """Rejected is the same as absent (TTL-41)."""
    assert parse_seconds(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        row("digits", "1" * 300_000, None),
        row("zeros before a number", "0" * 300_000 + "15", 15),
        row("zeros", "0" * 300_000, 0),
        row("zeros before something else", "0" * 300_000 + "x", None),
        row("signs", "-" * 300_000, None),
    ],
)
def test_a_huge_annotation_is_parsed_like_any_other(text: str, value: int | None) -> None:
    """A text longer than a server accepts is parsed: no limit of digits, linear time (TTL-41)."""
    assert parse_seconds(text) == value
