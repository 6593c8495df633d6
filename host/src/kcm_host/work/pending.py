"""Why one key is to be synced, gathered until a worker takes it."""

import msgspec

from kcm_host.api.records import Cause
from kcm_host.api.wakes import Lane

MAX_CAUSES = 16


class Pending(msgspec.Struct):
    """
    Causes gathered for one key; `merged` counts those not kept too, `since` is loop time.

    `lane` is the highest it was asked for. `swept` says that the slow sweep was the first to ask.
    """

    since: float
    causes: list[Cause]
    merged: int
    lane: Lane = Lane.NORMAL
    swept: bool = False

    def merge(self, other: "Pending") -> None:
        """Add the causes of `other`, keeping the first 16, and take the higher lane."""
        self.causes.extend(other.causes[: MAX_CAUSES - len(self.causes)])
        self.merged += other.merged
        self.lane = min(self.lane, other.lane)
