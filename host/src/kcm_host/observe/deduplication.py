"""Deduplication of log events: each fact once, or once and then as a count."""

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType

from cachetools import LRUCache

MAX_FACTS = 1024
#: How long after the first line of a fact its repetitions are logged as a count; doubled each time.
FIRST_INTERVAL_SECONDS = 10.0
MAX_INTERVAL_SECONDS = 600.0
#: The number of frames of a traceback that count in the fingerprint of an error.
MAX_FRAMES = 30


class LogOnce:
    """
    The facts that were logged, so that a lasting fact is logged once and not once a second.

    The last `size` facts are kept; the one that was used least recently is removed first.
    """

    def __init__(self, size: int = MAX_FACTS) -> None:
        self._logged: LRUCache[Hashable, str] = LRUCache(size)

    def is_new(self, fact: Hashable, text: str = "") -> bool:
        """Return whether `fact` is new or its text has changed, and record it as logged."""
        is_same = self._logged.get(fact) == text
        self._logged[fact] = text
        return not is_same

    def forget(self, fact: Hashable) -> bool:
        """Remove a fact, so that it is new when it returns; return whether it was there."""
        return self._logged.pop(fact, None) is not None

    def clear(self) -> bool:
        """Remove all facts; return whether there were any."""
        had_facts = bool(self._logged)
        self._logged.clear()
        return had_facts


class _Repetition:
    """The repetitions of one fact since its last line."""

    __slots__ = ("count", "interval", "level", "pairs", "timer")

    def __init__(self, level: int, timer: asyncio.TimerHandle) -> None:
        self.level = level
        self.timer = timer
        self.interval = FIRST_INTERVAL_SECONDS
        self.pairs: Mapping[str, str] = {}
        self.count = 0


class DeduplicatedLog:
    """
    Logs one event: at once when its fact is new, as a count when it repeats.

    The count is logged after 10 s, then after 20 s more, and so on up to ten minutes, with the
    pairs of the latest repetition; after an interval without any the fact is removed. Each
    repetition is logged at level `debug` too. Belongs to the running loop.
    """

    def __init__(self, log: logging.Logger, event: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._event = event
        # In the order of their first lines. No cache of a library: the oldest fact does not just
        # vanish when there are too many, its count is logged and its timer cancelled.
        self._facts: dict[Hashable, _Repetition] = {}

    def log(
        self, fact: Hashable, pairs: Mapping[str, str], *, level: int = logging.WARNING
    ) -> None:
        """Log the event with these pairs, or count it when the same fact was logged lately."""
        repetition = self._facts.get(fact)
        if repetition is None:
            self._log.log(level, self._event, extra={"kv": pairs})
            self._add(fact, _Repetition(level, self._start_timer(FIRST_INTERVAL_SECONDS, fact)))
            return
        repetition.count += 1
        repetition.pairs = pairs
        self._log.debug(self._event, extra={"kv": pairs})

    def close(self) -> None:
        """Log the present counts and remove all facts."""
        for fact in list(self._facts):
            self._remove(fact)

    def _add(self, fact: Hashable, repetition: _Repetition) -> None:
        self._facts[fact] = repetition
        if len(self._facts) > MAX_FACTS:
            self._remove(next(iter(self._facts)))

    def _start_timer(self, seconds: float, fact: Hashable) -> asyncio.TimerHandle:
        callback: Callable[[Hashable], None] = self._on_timer
        return self._loop.call_later(seconds, callback, fact)

    def _on_timer(self, fact: Hashable) -> None:
        repetition = self._facts[fact]
        if not repetition.count:
            del self._facts[fact]
            return
        self._log_count(repetition)
        # Doubled, because 400 nodes without a permission made 1,139 lines a minute, and after an
        # hour nobody needs one each ten seconds (F-82).
        repetition.interval = min(repetition.interval * 2, MAX_INTERVAL_SECONDS)
        repetition.timer = self._start_timer(repetition.interval, fact)

    def _remove(self, fact: Hashable) -> None:
        repetition = self._facts.pop(fact)
        repetition.timer.cancel()
        if repetition.count:
            self._log_count(repetition)

    def _log_count(self, repetition: _Repetition) -> None:
        counts = {"times": str(repetition.count), "within": f"{repetition.interval:g}s"}
        pairs = {**repetition.pairs, **counts}
        self._log.log(repetition.level, f"{self._event}, again", extra={"kv": pairs})
        repetition.count = 0


def fingerprint(error: BaseException) -> Hashable:
    """
    Return what errors with one origin have in common, whatever object they are about.

    That is their type, the codes of the server, and the places in the code; not their text, which
    names the object.
    """
    # With the text, the same failure of 400 keys would be 400 facts (F-82).
    codes = (getattr(error, "status", 0), getattr(error, "reason", ""))
    return type(error), codes, _places(error.__traceback__)


def _places(trace: TracebackType | None) -> Hashable:
    # A set, because an error that is raised more than once has the same frames again.
    places = set()
    for _ in range(MAX_FRAMES):
        if trace is None:
            break
        places.add((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    return frozenset(places)
