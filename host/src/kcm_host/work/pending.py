"""Why one key is to be synced, gathered until a worker takes it."""

import msgspec

from kcm_host.api.records import Cause

MAX_CAUSES = 16


class Pending(msgspec.Struct):
    """Causes gathered for one key; `merged` counts those not kept too, `since` is loop time."""

    since: float
    causes: list[Cause]
    merged: int

    def merge(self, other: "Pending") -> None:
        """Add the causes of `other`, keeping the first 16."""
        self.causes.extend(other.causes[: MAX_CAUSES - len(self.causes)])
        self.merged += other.merged
