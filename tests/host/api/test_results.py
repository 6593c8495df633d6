"""Results of syncs and enqueue requests refuse times that would make a busy loop."""

from datetime import timedelta
from typing import Any

import pytest

from kcm_host.api import EnqueueRequest, Key, Later, Terminal

A = Key("a")


@pytest.mark.parametrize("after", [timedelta(0), timedelta(seconds=-1)])
def test_later_is_later_than_now(after: timedelta) -> None:
    """Later needs a time above zero, and says what to return instead (F-62)."""
    with pytest.raises(ValueError, match=r"is not above zero; return Done\(\) .* or raise"):
        Later(after)
    assert Later(timedelta(microseconds=1)).after == timedelta(microseconds=1)


@pytest.mark.parametrize("after", [5, 0.5, "5s", None])
def test_times_are_timedeltas_alone(after: Any) -> None:
    """A number has no unit: the error shows what to write (F-62)."""
    with pytest.raises(TypeError, match=r"write Later\(timedelta\(seconds=\.\.\.\)\)"):
        Later(after)
    with pytest.raises(TypeError, match=r"write after=timedelta\(seconds=\.\.\.\)"):
        EnqueueRequest(A, after=after)


def test_a_request_for_the_past_is_refused() -> None:
    """A negative time is an error with the remedy, zero means at once (F-62)."""
    with pytest.raises(ValueError, match=r"is negative; write max\(after, timedelta\(0\)\)"):
        EnqueueRequest(A, after=timedelta(seconds=-1))
    assert EnqueueRequest(A, after=timedelta(0)) == EnqueueRequest(A)


def test_a_terminal_failure_has_a_text() -> None:
    """An exception is no text: the error shows what to write."""
    wrong: Any = ValueError("no")
    with pytest.raises(TypeError, match=r"write Terminal\(str\(error\)\)"):
        Terminal(wrong)
