"""The parser of quantities, and which texts it keeps (RQ-270 to RQ-291)."""

from fractions import Fraction
from operator import add

import pytest
from host.api.quantity_vectors import PARSED, REFUSED, B, D, E

from kcm_host.api import Quantity, QuantityError, QuantityFormat
from kcm_host.api.quantity import MAX_DIGITS, NANO, canonical

LARGEST_BINARY = 2**63 - 1
LARGEST_EXPONENT = 2**31 - 1


@pytest.mark.parametrize(
    ("text", "as_shown", "written", "kind", "number"),
    [pytest.param(*fields, id=vector) for vector, *fields in PARSED],
)
def test_a_text_is_parsed(
    text: str, as_shown: str, written: str, kind: QuantityFormat, number: str
) -> None:
    """Number, format, returned and canonical text are those of the vectors (RQ-270 to RQ-300)."""
    quantity = Quantity.parse(text)
    assert quantity.nano == Fraction(number) * NANO
    assert quantity.format is kind
    assert str(quantity) == as_shown
    assert canonical(quantity.nano, quantity.format) == written


@pytest.mark.parametrize(
    ("text", "sort"), [pytest.param(*fields, id=vector) for vector, *fields in REFUSED]
)
def test_an_invalid_text_is_rejected(text: str, sort: str) -> None:
    """Grammar, suffix or number is invalid (RQ-275 to RQ-278)."""
    with pytest.raises(QuantityError) as refused:
        Quantity.parse(text)
    assert refused.value.part == sort
    assert str(refused.value).startswith(f"{text!r} is no quantity")
    assert "write" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        *("\N{ARABIC-INDIC DIGIT ONE}", "1\n", " 1", "1_000", "inf", "nan", "True"),
        *("1..2", "1.-2", "1e--2"),
    ],
    ids=ascii,
)
def test_only_ascii_digits_and_nothing_around_them(text: str) -> None:
    """The parser accepts ASCII only, trims nothing, and accepts no words (RQ-271, RQ-276)."""
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize("suffix", ["Pi", "Ei", "e-10"])
def test_the_exact_path_requires_a_digit(suffix: str) -> None:
    """
    Without any digit the exact path fails, and the fast path returns 0 (RQ-278).

    A digit on either side of the point is enough, also a zero.
    """
    for number in ("", ".", "+", "-."):
        with pytest.raises(QuantityError, match="there is no digit before") as refused:
            Quantity.parse(f"{number}{suffix}")
        assert refused.value.part == "numeric"
    for number in ("1.", "0", ".5"):
        assert Quantity.parse(f"{number}{suffix}").nano >= 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [(".", D), ("+", D), ("-", D), ("k", D), ("Ki", B), ("Ti", B), ("e3", E), ("E-9", E)],
)
def test_the_fast_path_parses_no_digit_as_zero(text: str, kind: QuantityFormat) -> None:
    """A number part without any digit is accepted as 0 (RQ-278, RQ-284)."""
    assert Quantity.parse(text) == Quantity(0, kind)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("1.500", True, id="RQ-289: scale -3, ends in 500"),
        pytest.param("12E6", True, id="RQ-289: scale 6"),
        pytest.param("1.250k", True, id="RQ-289: scale 0"),
        pytest.param("1.25k", False, id="scale 1"),
        pytest.param("5.000", False, id="ends in 000"),
        pytest.param("0.125", False, id="begins with 0"),
        pytest.param("123456789012345678", True, id="18 digits"),
        pytest.param("1234567890123456.789", False, id="19 digits"),
        pytest.param("0000123456789012345678", True, id="zeros before do not count"),
        pytest.param("1.000000001", True, id="scale -9"),
        pytest.param("1.000000000001", False, id="scale -12"),
        pytest.param("1001Ki", True, id="binary, no multiple of 8"),
        pytest.param("+8Ki", False, id="binary, multiple of 8"),
        pytest.param("+4Ki", True, id="binary, multiple of 4"),
        pytest.param("1.Ki", True, id="binary, point without digits"),
        pytest.param("1.0Ki", False, id="binary, digits behind the point"),
        pytest.param("+99999999999Ki", True, id="11 digits with Ki"),
        pytest.param("+999999999999Ki", False, id="12 digits with Ki"),
        pytest.param("+99999999Mi", True, id="8 digits with Mi"),
        pytest.param("+999999999Mi", False, id="9 digits with Mi"),
        pytest.param("+99999Gi", True, id="5 digits with Gi"),
        pytest.param("+999999Gi", False, id="6 digits with Gi"),
        pytest.param("+99Ti", True, id="2 digits with Ti"),
        pytest.param("+999Ti", False, id="3 digits with Ti"),
        pytest.param("+1Pi", False, id="none with Pi"),
        pytest.param("+1Ei", False, id="none with Ei"),
    ],
)
def test_which_texts_are_kept(text: str, kept: bool) -> None:
    """Only the fast path keeps a text, and only in its own form (RQ-281, RQ-288, RQ-289)."""
    assert Quantity.parse(text).text == (text if kept else "")


def test_arithmetic_drops_the_text() -> None:
    """Adding 0 makes a kept text canonical; a maximum copies it (RQ-290, RQ-303, RQ-305)."""
    kept = Quantity.parse("1.500")
    assert str(add(kept, Quantity.parse("0"))) == "1500m"
    assert str(max(Quantity.parse("1"), kept)) == "1.500"


@pytest.mark.parametrize(
    ("text", "nano", "kind"),
    [
        pytest.param("-0.0000000001", -1, D, id="away from 0 on both sides"),
        pytest.param("-1.00000000001Ki", -1024_000000011, B, id="binary too"),
        pytest.param("1e-2147483647", 1, E, id="however small"),
        pytest.param("0.0e-2147483647", 0, E, id="but not 0"),
        pytest.param("-8Ei", -LARGEST_BINARY * NANO, B, id="binary is capped below"),
        pytest.param("99999999999999999999Ki", LARGEST_BINARY * NANO, B, id="and above"),
        pytest.param("7.99999999999999999999Ei", LARGEST_BINARY * NANO, B, id="fractions too"),
        pytest.param("9223372036854775808", (LARGEST_BINARY + 1) * NANO, D, id="decimal is not"),
        pytest.param("-.0009Ki", -921_600000, D, id="binary below 1 is decimal, negative too"),
        pytest.param(".0009765625Ki", NANO, B, id="binary 1 is binary"),
        pytest.param("0.00Ki", 0, B, id="binary 0 is binary"),
    ],
)
def test_the_exact_path(text: str, nano: int, kind: QuantityFormat) -> None:
    """Rounding away from 0 to nano, the binary cap, small binary as decimal (RQ-282, RQ-283)."""
    assert Quantity.parse(text) == Quantity(nano, kind)


@pytest.mark.parametrize("exponent", [LARGEST_EXPONENT + 1, -LARGEST_EXPONENT - 1, int("9" * 30)])
def test_exponents_beyond_32_bits_are_rejected(exponent: int) -> None:
    """They are an invalid suffix, also if the number is 0 (RQ-279, D-16)."""
    for digit in "01":
        with pytest.raises(QuantityError, match="its suffix") as refused:
            Quantity.parse(f"{digit}e{exponent}")
        assert refused.value.part == "suffix"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"1e{MAX_DIGITS - 9}", id="exponent, counted in nano units"),
        pytest.param(f"1e{LARGEST_EXPONENT}", id="largest exponent"),
        pytest.param("1" * (MAX_DIGITS + 1), id="digits"),
        pytest.param("0" * 10_000_000, id="zeros"),
        pytest.param("!" * 10_000_000, id="nonsense"),
    ],
)
def test_numbers_with_too_many_digits_are_rejected_at_once(text: str) -> None:
    """One text cannot fill the memory; the message stays short (RQ-279, D-16)."""
    with pytest.raises(QuantityError, match=f"more than {MAX_DIGITS} digits") as refused:
        Quantity.parse(text)
    assert refused.value.part == "numeric"
    assert len(str(refused.value)) < 200


def test_the_longest_numbers_are_counted() -> None:
    """A parsed quantity can be added and formatted in any sum (D-16)."""
    longest = Quantity.parse(f"1e{MAX_DIGITS - 10}")
    total = add(add(longest, Quantity.parse("1n")), longest)
    assert Quantity.parse(str(longest)) == longest
    assert str(total) == f"2{'0' * (MAX_DIGITS - 2)}1e-9"
    assert Quantity.parse(f"0e{LARGEST_EXPONENT}") == Quantity(0, E)


@pytest.mark.parametrize(
    ("value", "quantity"),
    [
        pytest.param(None, Quantity(0), id="null"),
        pytest.param(5, Quantity(5 * NANO, D, "5"), id="whole number"),
        pytest.param(1.5, Quantity(1_500_000_000), id="fraction"),
        pytest.param(-1.0, Quantity(-NANO), id="whole fraction"),
        pytest.param(1e21, Quantity(10**21 * NANO, E, "1e+21"), id="exponent"),
    ],
)
def test_bare_json_numbers_are_read(value: float | None, quantity: Quantity) -> None:
    """A number stands for its text, and null for 0 (RQ-271)."""
    assert Quantity.parse(value) == quantity


def test_equal_texts_share_one_quantity() -> None:
    """A cluster has few different texts, so each is parsed once."""
    first, second = (f"{number}Mi" for number in (1234567, 1234567))
    assert first is not second
    assert Quantity.parse(first) is Quantity.parse(second)
