"""Exact quantities: parsing of texts such as `1.5Gi`, arithmetic, comparison, formats."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Literal

import msgspec

NANO = 10**9
# Longer numbers are rejected: their arithmetic would block the event loop.
MAX_DIGITS = 4000

_LARGEST_BINARY = 2**63 - 1
_LARGEST_EXPONENT = 2**31 - 1
_SUFFIX_FORM = (
    "n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or 'e' and a whole number between "
    f"-{_LARGEST_EXPONENT} and {_LARGEST_EXPONENT}"
)
# Possessive throughout: a text that does not match fails in one pass, however long it is.
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+"
    r"(?P<suffix>[eEinumkKMGTP]*+[+-]?[0-9]*+)"
)
_EXPONENT = re.compile(r"[eE](?P<sign>[+-]?)0*+(?P<size>[0-9]{0,10})(?<=[0-9])")


class QuantityFormat(StrEnum):
    """The family of suffixes that a quantity is written with; it does not change the number."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity(msgspec.Struct, frozen=True, gc=False, eq=False):
    """
    An exact number of nano units, and the format that it is written in.

    Comparison, equality and hash are those of the number: `1Gi` equals `1024Mi`. Sums and
    differences have the format of the left operand, or of the right one if the left is 0. `str()`
    is the text that the API server returns: for a parsed quantity it is often the parsed text.
    """

    NANO: ClassVar[int] = NANO
    """Nano units in one unit: no quantity is finer."""

    nano: int
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    #: The parsed text, if it is kept although it is not canonical; otherwise empty.
    text: str = ""

    @classmethod
    def parse(cls, text: str | float | None) -> "Quantity":
        """
        Return the quantity of a value in a manifest; results are cached by text.

        A JSON number is parsed as its text, null is 0. Raises `QuantityError` for a text that is
        no quantity: one with white space or an unknown suffix, or with more than 4,000 digits.
        """
        if text is None:
            return ZERO
        return _parse_text(text if type(text) is str else repr(text))

    def round_up(self) -> "Quantity":
        """Return the next whole number away from 0; a whole one is returned as it is."""
        if not self.nano % NANO:
            return self
        return Quantity(_quotient_away_from_zero(self.nano, NANO) * NANO, self.format)

    def __str__(self) -> str:
        return self.text or canonical(self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: "Quantity") -> bool:
        return self.nano > other.nano

    def __ge__(self, other: "Quantity") -> bool:
        return self.nano >= other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.format)

    def __bool__(self) -> bool:
        return bool(self.nano)


class QuantityError(ValueError):
    """An invalid quantity; `part` is the invalid part of the text."""

    def __init__(self, message: str, *, part: Literal["format", "suffix", "numeric"]) -> None:
        super().__init__(message)
        self.part = part


ZERO = Quantity(0)

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES = ("", *_BINARY)


def canonical(nano: int, format: QuantityFormat) -> str:  # noqa: A002 (the word of the API for it)
    """
    Return the canonical text of a number, without fraction or rounding.

    It always parses to the same number: beyond the largest suffix it has a decimal exponent or is
    a plain integer.
    """
    if (
        format is QuantityFormat.BINARY_SI
        and not nano % NANO
        and not -1024 * NANO < nano < 1024 * NANO
    ):
        return _binary_text(nano // NANO)
    if not nano:
        return "0"
    exponent = -9
    while not nano % 1000:
        nano //= 1000
        exponent += 3
    if format is not QuantityFormat.DECIMAL_EXPONENT and exponent in _DECIMAL_SUFFIXES:
        return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{nano}e{exponent}" if exponent else str(nano)


def _binary_text(units: int) -> str:
    """Return whole units with the largest binary suffix; plain beyond the maximum."""
    if abs(units) > _LARGEST_BINARY:
        return str(units)
    power = ((units & -units).bit_length() - 1) // 10
    return f"{units >> 10 * power}{_BINARY_SUFFIXES[power]}"


def _quotient_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


@lru_cache(maxsize=8192)
def _parse_text(text: str) -> Quantity:
    match = _QUANTITY.fullmatch(text) if 0 < len(text) <= MAX_DIGITS else None
    if match is None:
        raise _format_error(text)
    sign, zeros, whole, fraction, suffix = match.groups("")
    parse_number = _parse_binary if suffix in _BINARY else _parse_decimal
    quantity, is_fast = parse_number(text, whole, fraction, suffix=suffix)
    if not (is_fast or zeros or whole or fraction):
        raise QuantityError(
            f"{text!r} is no quantity: there is no digit before {suffix!r}; write a number there",
            part="numeric",
        )
    if sign != "-":
        return quantity
    return Quantity(-quantity.nano, quantity.format, quantity.text)


def _format_error(text: str) -> QuantityError:
    if len(text) > MAX_DIGITS:
        return _too_long(text)
    return QuantityError(
        f"{text!r} is no quantity; write a number and, where wanted, one suffix without a space: "
        f"{_SUFFIX_FORM}",
        part="format",
    )


def _too_long(text: str) -> QuantityError:
    start = text if len(text) <= 40 else f"{text[:40]}..."
    return QuantityError(
        f"{start!r} is no quantity that can be counted: it has more than {MAX_DIGITS} digits; "
        "write a smaller one",
        part="numeric",
    )


def _parse_binary(text: str, whole: str, fraction: str, suffix: str) -> tuple[Quantity, bool]:
    """Return the absolute quantity of a binary text, and whether it took the fast path."""
    exponent = _BINARY[suffix]
    number = int(whole + fraction or "0")
    units_of_fraction = 10 ** len(fraction)
    nano = _quotient_away_from_zero((number << exponent) * NANO, units_of_fraction)
    if not fraction and len(whole) <= 14 - 3 * exponent // 10:
        return Quantity(nano, QuantityFormat.BINARY_SI, text if number % 8 else ""), True
    kept = QuantityFormat.DECIMAL_SI if 0 < nano < NANO else QuantityFormat.BINARY_SI
    return Quantity(min(nano, _LARGEST_BINARY * NANO), kept), False


def _parse_decimal(text: str, whole: str, fraction: str, suffix: str) -> tuple[Quantity, bool]:
    """Return the absolute quantity of a decimal text, and whether it took the fast path."""
    kind = QuantityFormat.DECIMAL_SI if suffix in _DECIMAL else QuantityFormat.DECIMAL_EXPONENT
    exponent = _exponent(text, suffix) - len(fraction)
    digits = whole + fraction
    nano = _scaled(text, digits, exponent + 9)
    is_fast = len(digits) <= 18 and exponent >= -9
    keeps_text = is_fast and whole and not exponent % 3 and not digits.endswith("000")
    return Quantity(nano, kind, text if keeps_text else ""), is_fast


def _exponent(text: str, suffix: str) -> int:
    """Return the power of 10 of a suffix."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    match = _EXPONENT.fullmatch(suffix)
    size = int(match["size"] or "0") if match else _LARGEST_EXPONENT + 1
    if match is None or size > _LARGEST_EXPONENT:
        raise QuantityError(
            f"{text!r} is no quantity: its suffix {suffix!r} is not known; write {_SUFFIX_FORM}",
            part="suffix",
        )
    return -size if match["sign"] == "-" else size


def _scaled(text: str, digits: str, exponent: int) -> int:
    """Return digits x 10^exponent, rounded up to a whole number."""
    number = int(digits or "0")
    if exponent >= 0:
        if number and len(digits) + exponent > MAX_DIGITS:
            raise _too_long(text)
        return number and number * 10**exponent
    # A power with an exponent of billions would fill the memory, and the result is 0 or 1 anyway.
    return _quotient_away_from_zero(number, 10 ** min(-exponent, len(digits)))
