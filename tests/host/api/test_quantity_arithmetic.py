"""Sums, differences, maxima and rounding of quantities (RQ-296 to RQ-305)."""

import itertools
from fractions import Fraction
from functools import reduce
from operator import add, sub
from typing import NamedTuple

import pytest
from host.api.quantity_vectors import DIFFERENCES, ROUNDED, SUMS, B, D, E
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_host.api import Quantity, QuantityFormat
from kcm_host.api.quantity import NANO, ZERO, canonical

#: Suffix -> factor and format.
SUFFIXES = {
    **{s: (Fraction(10) ** e, D) for s, e in zip("num kMGTPE", range(-9, 19, 3), strict=True)},
    **{f"{s}i": (Fraction(2) ** e, B) for s, e in zip("KMGTPE", range(10, 70, 10), strict=True)},
    **{f"{s}{e}": (Fraction(10) ** e, E) for s in "eE" for e in range(-12, 31, 3)},
}


def sum_of(*texts: str) -> Quantity:
    """Add from left to right, starting at 0, as for a namespace."""
    return reduce(add, map(Quantity.parse, texts), ZERO)


@pytest.mark.parametrize(
    ("addends", "text", "kind"), [pytest.param(*fields, id=vector) for vector, *fields in SUMS]
)
def test_sums(addends: str, text: str, kind: QuantityFormat) -> None:
    """Number and format of a sum are those of the vectors (RQ-303, RQ-304, D-16)."""
    total = sum_of(*addends.split(" + "))
    assert (str(total), total.format) == (text, kind)
    assert Quantity.parse(text).nano == total.nano


@pytest.mark.parametrize(
    ("terms", "text", "kind"), [pytest.param(*fields, id=vector) for vector, *fields in DIFFERENCES]
)
def test_differences(terms: str, text: str, kind: QuantityFormat) -> None:
    """Number and format of a difference are those of the vectors (RQ-303)."""
    difference = sub(*map(Quantity.parse, terms.split(" - ")))
    assert (str(difference), difference.format) == (text, kind)


@pytest.mark.parametrize(
    ("text", "rounded", "kind"), [pytest.param(*fields, id=vector) for vector, *fields in ROUNDED]
)
def test_rounding_up(text: str, rounded: str, kind: QuantityFormat) -> None:
    """The next whole number away from 0, in the same format (RQ-302)."""
    result = Quantity.round_up(Quantity.parse(text))
    assert (str(result), result.format) == (rounded, kind)


@pytest.mark.parametrize("text", ["0", "+1", "007", "1.250k", "12E6", "1001Ki", "-3"])
def test_whole_quantities_are_not_rounded(text: str) -> None:
    """A whole quantity keeps its text too (RQ-302)."""
    assert Quantity.round_up(Quantity.parse(text)) is Quantity.parse(text)


@pytest.mark.parametrize(
    ("a", "b", "greater"),
    [
        ("1", "2", "2"),
        ("2", "1", "2"),
        ("1", "1000m", "1"),
        ("1Ki", "1024", "1Ki"),
        ("-2", "0", "0"),
    ],
)
def test_the_second_must_be_strictly_greater(a: str, b: str, greater: str) -> None:
    """Of equal numbers the first stays, with its format and text (RQ-301, RQ-305)."""
    assert max(Quantity.parse(a), Quantity.parse(b)) is Quantity.parse(greater)


@pytest.mark.parametrize(
    ("nano", "kind", "text"),
    [
        pytest.param(0, B, "0", id="RQ-295"),
        pytest.param(1023 * NANO, B, "1023", id="RQ-296: below 1024"),
        pytest.param(-1000 * NANO, B, "-1k", id="RQ-296: above -1024"),
        pytest.param(1024 * NANO + 1, B, "1024000000001n", id="RQ-296: not whole"),
        pytest.param(-1024 * NANO, B, "-1Ki", id="RQ-297: negative"),
        pytest.param(1025 * NANO, B, "1025", id="RQ-297: no division"),
        pytest.param(10**6 * NANO, B, "1000000", id="RQ-297: not decimal"),
        pytest.param(7 * 2**60 * NANO, B, "7Ei", id="RQ-297: last suffix"),
        pytest.param(20 * NANO, D, "20", id="RQ-298: factor 10 stays"),
        pytest.param(100 * NANO, E, "100", id="RQ-298: no exponent 0"),
        pytest.param(10**16 * NANO, E, "10e15", id="RQ-298: exponent by threes"),
        pytest.param(1, E, "1e-9", id="RQ-298: negative exponent"),
        pytest.param(-(10**21) * NANO, D, "-1e21", id="RQ-299: beyond E, D-16"),
        pytest.param(12345 * 10**23 * NANO, D, "1234500e21", id="RQ-299: by threes, D-16"),
        pytest.param(2**63 * NANO, B, "9223372036854775808", id="D-16: beyond the cap"),
        pytest.param(-(2**70) * NANO, B, "-1180591620717411303424", id="D-16: beyond Ei"),
        pytest.param(10**21 * NANO, B, "1000000000000000000000", id="D-16: plain"),
    ],
)
def test_canonical_text(nano: int, kind: QuantityFormat, text: str) -> None:
    """No fraction, the largest suffix that is exact (RQ-295 to RQ-300, D-16)."""
    assert canonical(nano, kind) == text
    assert Quantity.parse(text).nano == nano


class Case(NamedTuple):
    """A text with its exact value and format."""

    text: str
    value: Fraction
    kind: QuantityFormat


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return texts of all suffixes, with many zeros at their ends."""
    suffix = draw(st.sampled_from(list(SUFFIXES)))
    factor, kind = SUFFIXES[suffix]
    whole = draw(st.text("0012345", min_size=1, max_size=14)) + "0" * draw(st.integers(0, 4))
    fraction = draw(st.one_of(st.just(""), st.text("00125", min_size=1, max_size=12)))
    sign = draw(st.sampled_from(["", "+", "-"]))
    point = "." if fraction else ""
    value = Fraction(f"{sign}{whole}{point}{fraction}") * factor
    return Case(f"{sign}{whole}{point}{fraction}{suffix.strip()}", value, kind)


def nano_of(value: Fraction, kind: QuantityFormat) -> int:
    """Round away from 0, with the maximum of RQ-282."""
    size = -(-abs(value) * NANO // 1)
    if kind is B:
        size = min(size, (2**63 - 1) * NANO)
    return size if value > 0 else -size


@settings(max_examples=2000)
@given(case=cases())
def test_random_texts_mean_what_the_rules_say(case: Case) -> None:
    """Number and format agree with plain fractions (RQ-277, RQ-280 to RQ-284)."""
    nano = nano_of(case.value, case.kind)
    small = case.kind is B and 0 < abs(nano) < NANO
    quantity = Quantity.parse(case.text)
    assert (quantity.nano, quantity.format) == (nano, D if small else case.kind)


@settings(max_examples=1000)
@given(several=st.lists(cases(), min_size=1, max_size=4))
def test_formatted_texts_parse_to_the_same_number(several: list[Case]) -> None:
    """
    What is written is never misread (RQ-290, D-16).

    Nor is it shown differently the next time, but for binary numbers without a binary suffix:
    those are read as decimal ones.
    """
    total = reduce(add, (Quantity.parse(case.text) for case in several))
    for quantity in (Quantity.parse(several[0].text), total):
        again = Quantity.parse(str(quantity))
        assert again.nano == quantity.nano
        if quantity.format is not B:
            assert str(again) == str(quantity)


@settings(max_examples=300)
@given(several=st.lists(cases(), min_size=2, max_size=4))
def test_sums_are_exact_in_any_order(several: list[Case]) -> None:
    """Any order has the same sum, and subtraction reverses it (RQ-303, RQ-304)."""
    texts = [case.text for case in several]
    totals = [sum_of(*order) for order in itertools.permutations(texts)]
    assert {total.nano for total in totals} == {
        sum(nano_of(case.value, case.kind) for case in several)
    }
    assert {total.format for total in totals} <= {
        D,
        *(Quantity.parse(text).format for text in texts),
    }
    assert reduce(sub, map(Quantity.parse, texts), totals[0]).nano == 0


@pytest.mark.parametrize("kind", QuantityFormat)
def test_a_sum_takes_the_format_of_the_first_that_is_not_zero(kind: QuantityFormat) -> None:
    """Earlier zeros do not count, and a sum that is 0 again starts anew (RQ-303, RQ-304)."""
    one = Quantity(NANO, kind)
    for zero in QuantityFormat:
        assert add(Quantity(0, zero), one).format is kind
        assert add(one, Quantity(0, zero)).format is kind
        assert add(sub(one, one), Quantity(0, zero)).format is zero
