"""What a watch or a timer asks for: keys, how they are to be queued, other watches."""

from datetime import timedelta
from enum import IntEnum

import msgspec

from kcm_host.api.kinds import Key


class Lane(IntEnum):
    """
    Which keys of a work queue go first.

    A lower lane is never starved: after eight keys of higher lanes it gets one. A key is in one
    lane only, the highest it was asked for.
    """

    URGENT = 0
    NORMAL = 1
    IDLE = 2


class Wake(msgspec.Struct, frozen=True, gc=False):
    """A key that is not simply queued: in another lane, or only after some time."""

    key: Key
    lane: Lane = Lane.NORMAL
    #: Of several times for one key the earliest counts (IQ-85).
    after: timedelta = timedelta(0)


class Rewatch(msgspec.Struct, frozen=True):
    """Ask `kcm_more_watches` again, soon: what it answers may have changed."""


Wanted = Key | Wake | Rewatch
