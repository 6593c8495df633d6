"""One line for what is said again and again, and counts of it at growing distances."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from types import TracebackType

#: How long after its first line a fact is counted before the count is logged; doubled each time.
FIRST_SECONDS = 10.0
MOST_SECONDS = 600.0
FACTS_KEPT = 1000
#: A stack is told from others by so many of its frames.
FRAMES = 30


class _Fact:
    """What was said of one fact since its last line."""

    __slots__ = ("distance", "level", "pairs", "timer", "times")

    def __init__(self, level: int, timer: asyncio.TimerHandle) -> None:
        self.level = level
        self.timer = timer
        self.distance = FIRST_SECONDS
        self.pairs: Mapping[str, str] = {}
        self.times = 0


class Repeats:
    """
    Logs one event: at once when its fact is new, as a count when it repeats.

    The count comes after 10 s, then after 20 s more, and so on up to ten minutes, with the pairs
    of the latest one; after a time without any the fact is forgotten. Each of them is logged at
    level `debug` too. Belongs to the running loop.
    """

    def __init__(self, log: logging.Logger, event: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._event = event
        self._facts: OrderedDict[Hashable, _Fact] = OrderedDict()

    def say(
        self, fact: Hashable, pairs: Mapping[str, str], *, level: int = logging.WARNING
    ) -> None:
        """Log the event with these pairs, or count it, if the same was said lately."""
        known = self._facts.get(fact)
        if known is None:
            self._log.log(level, self._event, extra={"kv": pairs})
            self._keep(fact, _Fact(level, self._later(FIRST_SECONDS, fact)))
            return
        known.times += 1
        known.pairs = pairs
        self._log.debug(self._event, extra={"kv": pairs})

    def close(self) -> None:
        """Log what was counted so far, and forget everything."""
        for fact in list(self._facts):
            self._forget(fact)

    def _keep(self, fact: Hashable, known: _Fact) -> None:
        self._facts[fact] = known
        if len(self._facts) > FACTS_KEPT:
            self._forget(next(iter(self._facts)))

    def _later(self, seconds: float, fact: Hashable) -> asyncio.TimerHandle:
        call: Callable[[Hashable], None] = self._due
        return self._loop.call_later(seconds, call, fact)

    def _due(self, fact: Hashable) -> None:
        known = self._facts[fact]
        if not known.times:
            del self._facts[fact]
            return
        self._tell(known)
        known.distance = min(known.distance * 2, MOST_SECONDS)
        known.timer = self._later(known.distance, fact)

    def _forget(self, fact: Hashable) -> None:
        known = self._facts.pop(fact)
        known.timer.cancel()
        if known.times:
            self._tell(known)

    def _tell(self, known: _Fact) -> None:
        pairs = {**known.pairs, "times": str(known.times), "within": f"{known.distance:g}s"}
        self._log.log(known.level, f"{self._event}, again", extra={"kv": pairs})
        known.times = 0


def sort_of_error(error: BaseException) -> Hashable:
    """
    Return what errors of one sort have in common, whatever object they are about.

    That is their type, what the server said in codes, and the places in the code that they came
    through; not their text, which names the object.
    """
    codes = (getattr(error, "status", 0), getattr(error, "reason", ""))
    return type(error), codes, _places(error.__traceback__)


def _places(trace: TracebackType | None) -> Hashable:
    # As a set: an error that is raised more than once gathers its frames anew each time.
    places = set()
    for _ in range(FRAMES):
        if trace is None:
            break
        places.add((trace.tb_frame.f_code, trace.tb_lineno))
        trace = trace.tb_next
    return frozenset(places)
