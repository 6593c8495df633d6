"""Whatever is in a name or a message: it makes one line, which a terminal shows as it is."""

import io
import json
import logging
import sys
from contextlib import redirect_stderr

import msgspec
import pytest
from fuzz_input import one_input
from host.observe.conftest import STATE
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.cli.output import fail, show_facts, show_json, show_table
from kcm_host.config.errors import ConfigError, Problem
from kcm_host.observe import endpoints
from kcm_host.observe.logging import JsonFormatter, TextFormatter, printable

#: Line ends of many kinds, C0 and C1 controls, marks of direction, what is invisible, a surrogate.
ODD = "\n\r\x0b\x1b\x7f\x85\x9b\xa0\xad\u200b\u200e\u202e\u2028\u2029\u2066\ufeff\ud800\U000e0001"
characters = st.one_of(
    st.sampled_from(ODD), st.characters(exclude_categories=()), st.sampled_from('ab\\"= é')
)
texts = st.text(characters, max_size=40)


class Terminal(io.StringIO):
    """Stands for stdout at a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def record(event: str, pairs: dict[str, object]) -> logging.LogRecord:
    """Return a log record with these pairs."""
    made = logging.LogRecord("acme", logging.INFO, "", 0, event, None, None)
    made.kv = pairs
    return made


@given(text=texts)
def test_printable_text_stays_and_the_rest_is_escaped(text: str) -> None:
    """The outcome is printable; inside a JSON string it means the same as before (F-23)."""
    with one_input("text that leaves"):
        shown = printable(text)
        assert shown.isprintable()
        assert printable(shown) == shown
        assert shown == text or not text.isprintable()
        assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


@given(event=texts, name=texts, value=texts)
def test_a_log_record_is_one_printable_line(event: str, name: str, value: str) -> None:
    """As text and as JSON, whose values are what was logged (F-23)."""
    with one_input("log record"):
        made = record(event, {name: value, "list": [value], "map": {value: value}})
        assert TextFormatter().format(made).isprintable()
        line = JsonFormatter().format(made)
        assert line.isprintable()
        found = json.loads(line)
        assert found["event"] == event
        assert value in (found.get(name), found.get(f"{name}_")) or name in ("list", "map")


@given(problem=texts.filter(bool), error=texts)
def test_a_problem_is_one_line_of_readyz(problem: str, error: str) -> None:
    """No problem can fake the line of another controller (F-23)."""
    with one_input("problem of a controller"):
        (controller,), (stream,) = STATE.controllers, STATE.streams
        bad = msgspec.structs.replace(controller, ready=False, problem=problem)
        waits = msgspec.structs.replace(controller, name="acme", ready=False)
        broken = msgspec.structs.replace(
            stream, synced=False, controllers=("acme",), error=error, resource=problem
        )
        state = msgspec.structs.replace(
            STATE, ready=False, controllers=(bad, waits), streams=(broken,)
        )
        lines = endpoints.readyz(state, verbose=True).body.decode().split("\n")
        assert all(line.isprintable() for line in lines)
        assert [line[:3] for line in lines] == ["[-]", "[-]", "rea", ""]


@given(text=texts)
def test_status_is_printable_json(text: str) -> None:
    """`/status` shows in a terminal what a program reads (F-23)."""
    with one_input("status of a plugin"):
        (controller,) = STATE.controllers
        told = msgspec.structs.replace(controller, problem=text, status={text: [text]})
        state = msgspec.structs.replace(STATE, controllers=(told,))
        body = endpoints.status(endpoints.status_text(state)).body.decode()
        assert body.isprintable()
        (found,) = json.loads(body)["controllers"]
        assert found["problem"] == text
        assert found["status"] == {text: [text]}


@given(cell=texts)
def test_tables_and_facts_are_printable(cell: str) -> None:
    """Piped or at a terminal, a cell is text and nothing else (F-23)."""
    with one_input("cell of a table"):
        for out in (io.StringIO(), Terminal()):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "stdout", out)
                patch.setenv("TERM", "dumb")
                show_table([{"name": cell, "value": [cell, 1]}], ("name", "value"))
                show_facts({"name": cell})
                show_json({"name": cell})
            assert all(line.isprintable() for line in out.getvalue().split("\n"))


@given(fact=texts)
def test_an_error_is_one_line(fact: str) -> None:
    """A problem with line ends in it makes no second error (F-23)."""
    with one_input("error of the command line"):
        for message in (fact, ConfigError([Problem(fact), Problem("next")])):
            with redirect_stderr(io.StringIO()) as err, pytest.raises(SystemExit):
                fail(message, 2)
            lines = err.getvalue().split("\n")
            assert all(line.isprintable() for line in lines)
            assert len(lines) == (2 if message is fact else 3)
