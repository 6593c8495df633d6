"""Durations in settings are written and shown as Go writes them."""

import json
import re
from datetime import timedelta
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from kcm_host.api.settings import Duration, format_duration, parse_duration

MEANINGS = [
    ("5m", timedelta(minutes=5)),
    ("1h30m", timedelta(minutes=90)),
    ("300ms", timedelta(milliseconds=300)),
    ("1.5s", timedelta(seconds=1.5)),
    (".5s", timedelta(seconds=0.5)),
    ("1.h", timedelta(hours=1)),
    ("2us", timedelta(microseconds=2)),
    ("2\u00b5s", timedelta(microseconds=2)),
    ("2\u03bcs", timedelta(microseconds=2)),
    ("1500ns", timedelta(microseconds=2)),
    ("1m1m", timedelta(minutes=2)),
    ("0s", timedelta()),
    ("-5s", timedelta(seconds=-5)),
    ("+5s", timedelta(seconds=5)),
    ("2562047h", timedelta(hours=2562047)),
]

REFUSED = [
    ("10", "duration '10' has no unit; write for example '10s' or '10m'"),
    ("1.5", "duration '1.5' has no unit"),
    ("0", "duration '0' has no unit"),
    ("5 m", "'5 m' is not a duration; write numbers with the units h, m, s"),
    ("5d", "'5d' is not a duration"),
    ("5M", "'5M' is not a duration"),
    ("", "'' is not a duration"),
    ("-", "'-' is not a duration"),
    (".s", "'.s' is not a duration"),
    ("1h-5m", "'1h-5m' is not a duration"),
    ("\u0665m", "is not a duration"),
    ("2562048h", "duration '2562048h' is too long"),
    ("1ns", "duration '1ns' is too short; the shortest is '1us'"),
    ("9" * 100 + "h", "is not a duration"),
]


class Plugin(BaseModel):
    """Settings as an author writes them."""

    period: Duration = timedelta(minutes=5)
    wait: Annotated[Duration, Field(ge=timedelta(0))] = timedelta(0)


@pytest.mark.parametrize(("text", "meaning"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_go_form_means_what_it_means_in_go(text: str, meaning: timedelta) -> None:
    """A duration in Go's form has the length that Go gives it (design 7)."""
    assert parse_duration(text) == meaning


@pytest.mark.parametrize(
    ("text", "fact"), REFUSED, ids=[text[:10] or "empty" for text, _ in REFUSED]
)
def test_other_texts_are_refused_with_a_remedy(text: str, fact: str) -> None:
    """What Go would not read, and a number without a unit, is an error that helps (design 7)."""
    with pytest.raises(ValueError, match=re.escape(fact)):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=1, minutes=30), "1h30m"),
        (timedelta(hours=1, seconds=5), "1h5s"),
        (timedelta(days=2), "48h"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(seconds=61, microseconds=1), "1m1.000001s"),
        (timedelta(milliseconds=300), "300ms"),
        (timedelta(microseconds=1050), "1.05ms"),
        (timedelta(microseconds=7), "7us"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
    ids=str,
)
def test_written_form_reads_back(value: timedelta, text: str) -> None:
    """A duration is written in the shortest Go form, which parses to the same value (design 7)."""
    assert format_duration(value) == text
    assert parse_duration(text) == value


@pytest.mark.parametrize("value", [10, 1.5, True, None, ["5m"]], ids=repr)
def test_field_takes_no_plain_number(value: object) -> None:
    """A field of type Duration refuses all but text and timedelta (design 7)."""
    with pytest.raises(ValidationError):
        TypeAdapter(Duration).validate_python(value)


def test_field_reads_and_writes_go_form() -> None:
    """A plugin's model reads `5m`, holds a timedelta and writes JSON in Go's form (design 7)."""
    settings = Plugin.model_validate({"period": "1h30m"})
    assert settings.period == timedelta(minutes=90)
    assert json.loads(settings.model_dump_json()) == {"period": "1h30m", "wait": "0s"}


def test_field_keeps_its_bounds() -> None:
    """A lower bound on the field still holds: a negative wait is an error (design 7)."""
    with pytest.raises(ValidationError, match="greater_than_equal"):
        Plugin.model_validate({"wait": "-1s"})


def test_schema_is_text_with_pattern_and_examples() -> None:
    """Editors see a duration as text with examples and a pattern that holds for them (design 7)."""
    period = json.loads(json.dumps(Plugin.model_json_schema()))["properties"]["period"]
    assert period["type"] == "string"
    assert period["examples"]
    assert all(re.search(period["pattern"], example) for example in period["examples"])
    assert not re.search(period["pattern"], "10")
