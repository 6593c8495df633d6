"""The settings of a controller: their base class, and durations as Go writes them (`1h30m`)."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from kcm_host.api.errors import Invalid


class Settings(BaseModel):
    """
    A base for the model that `kcm_settings` returns: immutable, and strict about types.

    The keys in the configuration are the field names in camelCase, and unknown keys are errors.
    The host applies these two rules to any pydantic model; with this base they also hold in tests,
    where the constructor takes the field names too: `WebsiteSettings(max_pages=2)`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign and the Greek letter: Go takes both
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_UNITS = "|".join(_NANOSECONDS)
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
PATTERN = rf"^[-+]?({_NUMBER}({_UNITS}))+$"
#: The same for JSON schemas of durations that may not be below zero (`-0s` is not).
NOT_NEGATIVE = rf"^(\+?({_NUMBER}({_UNITS}))+|-((?:0+\.?0*|\.0+)({_UNITS}))+)$"
_WHOLE = re.compile(PATTERN, re.ASCII)
_PART = re.compile(rf"(\d*)\.?(\d*)({_UNITS})", re.ASCII)
_BARE_NUMBER = re.compile(r"^[-+]?[\d.]+$", re.ASCII)
_LONGEST_TEXT = 64
_MOST_NANOSECONDS = 2**63 - 1  # Go's Duration ends here, after 292 years


def parse_duration(text: str) -> timedelta:
    """
    Return the duration that `text` names, to the nearest microsecond.

    Raises `Invalid` for a number without a unit, an unknown unit, a length
    that Go could not hold and a length above zero but shorter than half a microsecond.
    """
    if _BARE_NUMBER.match(text):
        raise Invalid(f"duration '{text}' has no unit", f"write for example '{text}s' or '{text}m'")
    # The length first: what stands in a file may be of any size, and the message repeats it.
    if len(text) > _LONGEST_TEXT or not _WHOLE.fullmatch(text):
        raise Invalid(
            f"'{text[:_LONGEST_TEXT]}' is not a duration",
            "write numbers with the units h, m, s, ms, us or ns, for example '1h30m'",
        )
    total = sum(_part_nanoseconds(*part) for part in _PART.findall(text))
    if total > _MOST_NANOSECONDS:
        raise Invalid(f"duration '{text}' is too long", "the longest is about '2562047h'")
    microseconds = (total + 500) // 1000
    if total and not microseconds:
        raise Invalid(f"duration '{text}' is too short", "the shortest is '1us'")
    return timedelta(microseconds=-microseconds if text.startswith("-") else microseconds)


def _part_nanoseconds(whole: str, fraction: str, unit: str) -> int:
    scale = _NANOSECONDS[unit]
    parts_of_one: int = 10 ** len(fraction)
    return int(whole or "0") * scale + int(fraction or "0") * scale // parts_of_one


def format_duration(value: timedelta) -> str:
    """Return the shortest text in Go's form that is parsed to `value`: `5m`, `1h30m`, `1.5s`."""
    microseconds = value // timedelta(microseconds=1)
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if rest == 0:
        return "0s"
    if rest < 1_000_000:
        return sign + (_decimal(rest, 1000, "ms") if rest >= 1000 else f"{rest}us")
    minutes, rest = divmod(rest, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return sign + "".join(parts) + (_decimal(rest, 1_000_000, "s") if rest else "")


def _decimal(value: int, scale: int, unit: str) -> str:
    whole, rest = divmod(value, scale)
    fraction = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0")
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def _validate(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Invalid(f"{type(value).__name__} is no duration", "write for example '30s'")
    return parse_duration(str(value))


class _GoForm:
    """The pydantic schema of a timedelta in Go's form."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Before pydantic's own validation, which would take a bare number for seconds and a text
        # for ISO 8601: the config file means Go's form everywhere.
        return core_schema.no_info_before_validator_function(
            _validate,
            core_schema.timedelta_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(
                format_duration, when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "string",
            "maxLength": _LONGEST_TEXT,
            "pattern": PATTERN,
            "examples": ["300ms", "5m", "1h30m"],
        }


Duration = Annotated[timedelta, _GoForm]
"""
A pydantic field type: a timedelta, written as Go writes durations.

A plain number is an error that asks for a unit. Negative values are allowed; forbid them where they
make no sense: `Annotated[Duration, Field(ge=timedelta(0))]`.
"""
