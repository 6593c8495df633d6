"""Timers: keys that are queued after fixed times."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from kcm_host.api.enqueue import Enqueue
from kcm_host.api.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """
    Keys that are queued periodically.

    `keys` is called each time `every` has passed while the controller runs, the first time that
    long after its start. It is synchronous and does no I/O; an exception restarts the controller.
    Several calls that became due while the process was blocked become one. It is also called
    early when the periodic resync has to find out whether it would have returned a key.
    """

    every: timedelta
    keys: Callable[[View], Iterable[Enqueue]]
    #: Whether it returns keys in case a change was missed, as the periodic resync does, and not
    #: because a time of theirs has passed. Then it is never called early.
    resync: bool = False
