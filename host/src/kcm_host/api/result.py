"""Results of a sync: done, or again later. An exception is a retry after a back-off."""

from datetime import timedelta

import msgspec


class Done(msgspec.Struct, frozen=True):
    """The actual state is the desired state; the number of failures is reset."""


class Later(msgspec.Struct, frozen=True):
    """The key is synced again after this time; the number of failures is reset."""

    after: timedelta


Outcome = Done | Later
