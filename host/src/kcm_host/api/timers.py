"""What happens because time has passed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from kcm_host.api.views import View
from kcm_host.api.wakes import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """
    Keys to queue again and again.

    `keys` is called each time `every` has passed while the controller runs, the first time that
    long after its start. It is synchronous and does no I/O; an exception restarts the controller.
    Calls that came due while the process was held up are made up for by one. It is also called
    early when the slow sweep has to know whether it would have asked for a key.
    """

    every: timedelta
    keys: Callable[[View], Iterable[Wanted]]
    #: Whether it asks for keys in case a change was missed, like the slow sweep, and not because
    #: their time has come. Then it is never called early.
    resync: bool = False
