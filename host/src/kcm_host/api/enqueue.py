"""What `keys` of a watch or a timer returns: keys, how they are queued, other watches."""

from datetime import timedelta
from enum import IntEnum

import msgspec

from kcm_host.api.kinds import Key

_AT_ONCE = timedelta(0)


class Priority(IntEnum):
    """
    The priorities of keys in a work queue.

    No priority is starved: after eight keys of higher priorities one of a lower priority is
    taken. A key has one priority: the highest that was requested for it.
    """

    URGENT = 0
    NORMAL = 1
    IDLE = 2


class EnqueueRequest(msgspec.Struct, frozen=True, gc=False):
    """
    A key that is queued with another priority, or after a time.

    Raises `ValueError` if `after` is negative.
    """

    key: Key
    priority: Priority = Priority.NORMAL
    #: Of several times for one key the earliest counts.
    after: timedelta = _AT_ONCE

    def __post_init__(self) -> None:
        if self.after is _AT_ONCE:
            return
        if not isinstance(self.after, timedelta):
            raise TypeError(f"after={self.after!r}; write after=timedelta(seconds=...)")
        if self.after < _AT_ONCE:
            raise ValueError(
                f"after={self.after!r} is negative; write max(after, timedelta(0)) to queue the "
                "key at once when its time has passed"
            )


class RefreshWatches(msgspec.Struct, frozen=True):
    """A request to call `kcm_dynamic_watches` again soon, because its result may have changed."""


Enqueue = Key | EnqueueRequest | RefreshWatches
