"""How a sync ends: done, or again later. An exception is the third way, a retry with back-off."""

from datetime import timedelta

import msgspec


class Done(msgspec.Struct, frozen=True):
    """The key is right; its failures are forgotten."""


class Later(msgspec.Struct, frozen=True):
    """The key is to be synced again after this time; its failures are forgotten."""

    after: timedelta


Outcome = Done | Later
