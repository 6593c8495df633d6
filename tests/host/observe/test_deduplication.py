"""Repetitions of a fact are counted, once each, and the counts are logged."""

import asyncio
import logging
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged import pairs_of
from virtual_time import VirtualTimeLoop

from kcm_host.api.errors import ApiError
from kcm_host.observe.deduplication import MAX_FACTS, DeduplicatedLog, LogOnce, fingerprint

log = logging.getLogger("kcm_host.test_deduplication")


def test_a_fact_is_new_once() -> None:
    """A fact is new the first time, when its text has changed, and after it was forgotten."""
    once = LogOnce()
    assert once.is_new("nodes", "403")
    assert not once.is_new("nodes", "403")
    assert once.is_new("nodes", "500")
    assert once.is_new("nodes", "403")
    assert once.forget("nodes")
    assert not once.forget("nodes")
    assert once.is_new("nodes", "403")


def test_the_number_of_facts_is_limited() -> None:
    """Beyond the size, the least recently used fact is removed."""
    once = LogOnce(size=2)
    once.is_new("a")
    once.is_new("b")
    assert not once.is_new("a")
    once.is_new("c")
    assert not once.is_new("a")
    assert once.is_new("b")


class Lines(logging.Handler):
    """Keeps the pairs of all lines from warnings on, with the loop's time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self.lines: list[tuple[float, str, dict[str, str]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        at = round(self._loop.time() - self._begun, 6)
        self.lines.append((at, record.getMessage(), pairs_of(record)))

    def __enter__(self) -> "Lines":
        log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        log.removeHandler(self)


@pytest.mark.virtual_time
async def test_counts_are_logged_at_growing_intervals() -> None:
    """400 keys that fail each second: a line, and counts after 10, 30 and 70 s (F-82)."""
    with Lines() as kept:
        deduplicated = DeduplicatedLog(log, "sync failed")
        for second in range(71):
            for number in range(400):
                deduplicated.log("refused", {"key": f"n{number}", "second": str(second)})
            await asyncio.sleep(1)
        last = {"key": "n399", "within": "10s", "times": "3999", "second": "9"}
        assert kept.lines[:2] == [
            (0, "sync failed", {"key": "n0", "second": "0"}),
            (10, "sync failed, again", last),
        ]
        assert [(at, pairs["within"]) for at, _, pairs in kept.lines[1:]] == [
            (10, "10s"),
            (30, "20s"),
            (70, "40s"),
        ]


@pytest.mark.virtual_time
async def test_a_fact_that_returns_is_new_again() -> None:
    """After an interval without a repetition the next one is logged at once (F-82)."""
    with Lines() as kept:
        deduplicated = DeduplicatedLog(log, "sync failed")
        for seconds in (5, 40, 100):
            deduplicated.log("refused", {"key": "a"})
            await asyncio.sleep(seconds)
        deduplicated.close()
    events = [(at, event) for at, event, _ in kept.lines]
    assert events == [(0, "sync failed"), (10, "sync failed, again"), (45, "sync failed")]


@pytest.mark.virtual_time
async def test_intervals_grow_to_ten_minutes() -> None:
    """A fact that lasts for a day is logged six times an hour (F-82)."""
    with Lines() as kept:
        deduplicated = DeduplicatedLog(log, "sync failed")
        for _ in range(24 * 3600):
            deduplicated.log("refused", {})
            await asyncio.sleep(1)
        assert kept.lines[-1][2]["within"] == "600s"
        assert len(kept.lines) <= 24 * 6 + 7


@pytest.mark.virtual_time
async def test_each_repetition_is_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looks for one key finds all of its failures there (F-82)."""
    caplog.set_level(logging.DEBUG)
    deduplicated = DeduplicatedLog(log, "sync failed")
    for key in "abc":
        deduplicated.log("refused", {"key": key})
    found = [(one.levelname, pairs_of(one)["key"]) for one in caplog.records]
    assert found == [("WARNING", "a"), ("DEBUG", "b"), ("DEBUG", "c")]


@pytest.mark.virtual_time
async def test_the_number_of_repeated_facts_is_limited() -> None:
    """Beyond the limit the oldest is removed, and its count is logged (F-82)."""
    with Lines() as kept:
        deduplicated = DeduplicatedLog(log, "sync failed")
        deduplicated.log("first", {})
        deduplicated.log("first", {})
        for number in range(MAX_FACTS):
            deduplicated.log(number, {})
        assert len(deduplicated._facts) == MAX_FACTS
        assert [pairs for _, event, pairs in kept.lines if event.endswith("again")] == [
            {"times": "1", "within": "10s"}
        ]


def fail(error: Exception) -> None:
    """Raise."""
    raise error


def raised(message: str, status: int) -> ApiError:
    """Return an error as it comes out of a request."""
    error = ApiError(message, status=status)
    with suppress(ApiError):
        fail(error)
    return error


def raised_elsewhere() -> ApiError:
    """Return the same from another place."""
    error = ApiError("patch n1: 403", status=403)
    with suppress(ApiError):
        fail(error)
    return error


def test_errors_of_one_origin_have_one_fingerprint() -> None:
    """The text does not count, which names the object; type, codes and place do (F-82)."""
    one = fingerprint(raised("patch n1: 403", 403))
    assert one == fingerprint(raised("patch n2: 403", 403))
    others = [raised("patch n1: 409", 409), raised_elsewhere(), ValueError("patch n1: 403")]
    assert one not in [fingerprint(other) for other in others]


def test_an_error_that_is_raised_again_keeps_its_fingerprint() -> None:
    """One instance kept by a plugin gathers a longer stack each time: it stays the same (F-82)."""
    kept, sorts = ApiError("patch n1: 403", status=403), set()
    for _ in range(5):
        with suppress(ApiError):
            fail(kept)
        sorts.add(fingerprint(kept))
    assert len(sorts) == 1


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=60)


@given(STEPS)
def test_lines_and_counts_add_up(steps: list[tuple[str, int]]) -> None:
    """The number of lines and counts is the number of calls, for each fact (F-82)."""

    async def play() -> list[tuple[float, str, dict[str, str]]]:
        with Lines() as kept:
            deduplicated = DeduplicatedLog(log, "said")
            for fact, seconds in steps:
                deduplicated.log(fact, {"fact": fact})
                await asyncio.sleep(seconds)
            deduplicated.close()
            return kept.lines

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        lines = runner.run(play())
    told: Counter[str] = Counter()
    for _, _, pairs in lines:
        told[pairs["fact"]] += int(pairs.get("times", "1"))
    assert told == Counter(fact for fact, _ in steps)
