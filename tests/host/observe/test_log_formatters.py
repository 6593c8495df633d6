"""What a log line looks like."""

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Literal

import pytest

from kcm_host.observe.logging import log_warnings, start_logging

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
log = logging.getLogger("kcm_host.reconcile.worker")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def out() -> io.StringIO:
    """Return the stream of the log."""
    return io.StringIO()


def line_of(out: io.StringIO) -> str:
    """Return the one line in `out`, with its time replaced."""
    text = out.getvalue()
    assert text.endswith("\n")
    return re.sub(f"^{STAMP}", "TIME", text[:-1])


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [
        pytest.param({"controller": "ttl", "key": "n1"}, "controller=ttl key=n1", id="plain"),
        pytest.param({"reason": "not found"}, 'reason="not found"', id="blank"),
        pytest.param({"query": "a=b"}, 'query="a=b"', id="equals sign"),
        pytest.param({"said": 'a "b"'}, r'said="a \"b\""', id="quotes"),
        pytest.param({"key": ""}, 'key=""', id="empty"),
        pytest.param({"body": "a\nb\x1b[31m"}, r'body="a\nb\u001b[31m"', id="control characters"),
        pytest.param({"seconds": 0.1234567}, "seconds=0.123457", id="float"),
        pytest.param({"ready": True, "n": None, "c": 3}, "ready=true n=null c=3", id="others"),
        pytest.param({"keys": ["a", "b"]}, 'keys=["a", "b"]', id="list"),
    ],
)
def test_text_line_holds_event_and_pairs(
    out: io.StringIO, pairs: dict[str, object], shown: str
) -> None:
    """A text line is time, padded level, event and pairs; values that would blur it are quoted."""
    start_logging("info", stream=out)
    log.info("node patched", extra={"kv": pairs})
    assert line_of(out) == f"TIME INFO  node patched  {shown}"


def test_text_line_without_pairs_ends_with_the_event(out: io.StringIO) -> None:
    """An event without pairs has no blanks at the end."""
    start_logging("info", stream=out)
    log.warning("drain overrun")
    assert line_of(out) == "TIME WARN  drain overrun"


def test_event_of_a_library_cannot_fake_a_second_line(out: io.StringIO) -> None:
    """Control characters in an event are escaped, and a foreign logger is named."""
    start_logging("info", stream=out)
    logging.getLogger("acme.loop").error("bad\nTIME INFO  all is well")
    assert line_of(out) == r"TIME ERROR bad\nTIME INFO  all is well  logger=acme.loop"


def test_json_line_is_one_object(out: io.StringIO) -> None:
    """A JSON line has time, level, logger, event and the pairs, which cannot hide those four."""
    start_logging("info", form="json", stream=out)
    pairs = {"controller": "ttl", "level": "high", "odd": {1}}
    log.info("node patched", extra={"kv": pairs})
    line = json.loads(out.getvalue())
    assert re.fullmatch(STAMP, line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "kcm_host.reconcile.worker",
        "event": "node patched",
        "controller": "ttl",
        "level_": "high",
        "odd": "{1}",
    }


def fail(event: str) -> None:
    """Log an event with an exception of two lines."""
    error = ValueError("no such zone:\n  'x'")
    try:
        raise error
    except ValueError:
        log.exception(event)


@pytest.mark.parametrize("level", ["info", "debug"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_exceptions_have_a_stack_at_debug_alone(
    out: io.StringIO, form: Literal["text", "json"], level: str
) -> None:
    """Otherwise an exception is `error`; the stack is below the text line, or `stack` in JSON."""
    start_logging(level, form=form, stream=out)
    fail("sync failed")
    first, *stack = out.getvalue().splitlines()
    if form == "json":
        line = json.loads(first)
        assert line["error"].startswith("ValueError: no such zone")
        stack = line.get("stack", "").splitlines()
    elif level == "info":
        error = '''error="ValueError: no such zone:\\n  'x'"'''
        assert line_of(out) == f"TIME ERROR sync failed  {error}"
    assert [line.strip() for line in stack[:1]] == (
        ["Traceback (most recent call last):"] if level == "debug" else []
    )


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        pytest.param(Terminal, {}, True, id="terminal"),
        pytest.param(io.StringIO, {}, False, id="pipe"),
        pytest.param(Terminal, {"NO_COLOR": "1"}, False, id="NO_COLOR"),
        pytest.param(Terminal, {"TERM": "dumb"}, False, id="dumb terminal"),
    ],
)
def test_level_is_coloured_on_a_terminal_alone(
    stream: type[io.StringIO],
    variables: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The level has a colour on a terminal, unless NO_COLOR or the terminal speak against it."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = stream()
    start_logging("info", stream=out)
    log.warning("queue grows")
    expected = "\x1b[33mWARN \x1b[0m" if coloured else "WARN "
    assert line_of(out) == f"TIME {expected} queue grows"


def test_libraries_are_quiet_below_warning(out: io.StringIO) -> None:
    """What libraries say below a warning is not shown, even at level debug."""
    start_logging("debug", stream=out)
    for name in ("asyncio", "kubernetes", "urllib3"):
        logging.getLogger(name).info("chatter")
    assert out.getvalue() == ""


def test_starting_again_replaces_the_handler() -> None:
    """A second start does not print lines twice."""
    first, second = io.StringIO(), io.StringIO()
    start_logging("info", stream=first)
    start_logging("info", stream=second)
    log.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_warnings_of_python_are_log_lines(out: io.StringIO) -> None:
    """A warning is one JSON line with its place, not text on stderr (F-63)."""
    start_logging(form="json", stream=out)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log_warnings()
        warnings.warn("coroutine 'tidy' was never awaited", RuntimeWarning, stacklevel=1)
    line = json.loads(out.getvalue())
    assert (line["level"], line["event"]) == ("warning", "python warning")
    assert line["warning"] == "RuntimeWarning: coroutine 'tidy' was never awaited"
    assert line["at"].startswith(f"{__file__}:")
