"""Tells changes of what the server serves from answers that go back and forth."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable

log = logging.getLogger(__name__)

#: Without a change for so long, nothing goes back and forth any more.
STABLE_SECONDS = 600.0
#: How long a change waits while answers flap: doubled each time, up to the most.
FIRST_WAIT_SECONDS = 60.0
MOST_WAIT_SECONDS = 600.0
#: So often the same answer has to come again. Who makes a kind and deletes it goes back once.
RETURNS = 2
KEPT = 8


class Flapping:
    """
    Says when those who depend on what is served are told of a change.

    At once, unless the answers flap: API servers of two versions behind one address give two
    answers by turns, and each change would restart controllers. Then only after waits that grow,
    so that a change that lasts is still found.
    """

    def __init__(self, served: Hashable, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served = served
        #: How often each of the last answers has come again, the latest at the end.
        self._returns: OrderedDict[Hashable, int] = OrderedDict({served: 0})
        self._flaps = False
        self._changed_at = clock()
        self._untold = False
        self._wait_seconds = FIRST_WAIT_SECONDS
        self._due = 0.0

    def changed(self, served: Hashable) -> None:
        """Note that this is served now, and was not before."""
        now = self._clock()
        if now - self._changed_at > STABLE_SECONDS:
            self._returns = OrderedDict({self._served: 0})
            self._flaps = False
            self._wait_seconds = FIRST_WAIT_SECONDS
        self._returns[served] = self._returns.get(served, -1) + 1
        self._returns.move_to_end(served)
        if len(self._returns) > KEPT:
            self._returns.popitem(last=False)
        if self._returns[served] >= RETURNS and not self._flaps:
            self._begin(now)
        self._served, self._changed_at, self._untold = served, now, True

    def is_due(self) -> bool:
        """Whether to tell of a change now; True once for what has changed until then."""
        if not self._untold:
            return False
        now = self._clock()
        if not self._flaps:
            log.info("the server serves other kinds now")
        elif now < self._due and now - self._changed_at <= STABLE_SECONDS:
            return False
        else:
            self._wait_seconds = min(self._wait_seconds * 2, MOST_WAIT_SECONDS)
            self._due = now + self._wait_seconds
        self._untold = False
        return True

    def _begin(self, now: float) -> None:
        self._flaps = True
        self._due = now + self._wait_seconds
        pairs = {
            "problem": "answers from before come again; controllers heed them only now and then",
            "remedy": "see whether API servers of several versions answer at one address",
        }
        log.warning("what the server serves goes back and forth", extra={"kv": pairs})
