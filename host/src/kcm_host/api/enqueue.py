"""What `keys` of a watch or a timer returns: keys, how they are queued, other watches."""

from datetime import timedelta
from enum import IntEnum

import msgspec

from kcm_host.api.kinds import Key


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
    """A key that is queued with another priority, or after a time."""

    key: Key
    priority: Priority = Priority.NORMAL
    #: Of several times for one key the earliest counts.
    after: timedelta = timedelta(0)


class RefreshWatches(msgspec.Struct, frozen=True):
    """A request to call `kcm_dynamic_watches` again soon, because its result may have changed."""


Enqueue = Key | EnqueueRequest | RefreshWatches
