"""The deferred release of usage: which numbers may be lowered now, and which have to wait."""

from collections.abc import Mapping

import msgspec

#: An object that admission has counted is in every store within this time, or its request failed.
#: So a deletion that could not be subtracted for this time is no reason to lower `used` any more.
OBSERVATION_WINDOW_SECONDS = 2.0
#: The shortest wait: sums of floats are not exact, and the clock has to move.
MIN_WAIT_SECONDS = 0.001


class ReleaseDecision(msgspec.Struct, frozen=True):
    """
    The numbers to write for the names of one quota, in nano units.

    `observed_deletions` and `stale_usage` are the two parts of what each name is lowered by: usage
    of objects that were deleted, and usage that never became objects.
    """

    targets: Mapping[str, int]
    observed_deletions: Mapping[str, int] = {}
    stale_usage: Mapping[str, int] = {}
    #: What stays above each total.
    retained: Mapping[str, int] = {}
    #: The names that have to wait, the first of them for `wait_seconds`.
    deferred: tuple[str, ...] = ()
    wait_seconds: float = 0.0


class DeferredRelease:
    """
    The recent changes of one quota, and what they allow to write.

    Admission raises `used` before the object is in the store, so `used` above the total may be
    right (RQ-253). Only the usage of objects that the usage index lost is subtracted at once;
    everything else above the total has to stay unchanged for the settle time first (RQ-B32). Times
    are seconds on one monotonic clock.

    A deletion is subtracted once. It no longer counts as soon as a write that subtracts it has
    started, and counts again only when the server rejects that write: a write without a response
    may have been stored.
    """

    def __init__(self, *, now: float, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        #: Changes before this time are unknown.
        self._known_since = now
        self._uncertain_until = now
        self._last_change: dict[str, float] = {}
        self._observed_deletions: dict[str, int] = {}
        self._observed_at = now
        #: The least excess over the total since the last full resync.
        self._minimum_excess: dict[str, int] = {}
        self._excess_since: dict[str, float] = {}
        #: The time of the first deletion that is not written yet.
        self.deletion_pending_since: float | None = None
        #: What the present or the last write subtracts and `used` does not show yet.
        self._written: dict[str, int] = {}
        self._written_at = now
        #: The last write was rejected; its deletions do not expire before the next write.
        self._is_rejected = False

    def usage_changed(self, deltas: Mapping[str, int], *, now: float) -> None:
        """Record that the totals of the quota have changed by these amounts."""
        for name, delta in deltas.items():
            self._last_change[name] = now
            if delta < 0 and now >= self._uncertain_until:
                self._add_observed_deletion(name, -delta, now=now)
                self.deletion_pending_since = self.deletion_pending_since or now

    def used_changed(self, name: str, *, now: float, lowered: int = 0) -> None:
        """
        Record that `used` has another number for a name, lower by `lowered`.

        Admission never lowers: what this controller did not subtract, another writer did, perhaps
        before the event of the deletion arrives here.
        """
        self._last_change[name] = now
        if lowered > 0:
            by_others = lowered - self._written.pop(name, 0)
            if by_others > 0:
                self._add_observed_deletion(name, -by_others, now=now)

    def relisted(self, *, now: float) -> None:
        """
        Record that the quota comes from a new list, so changes of `used` may have been missed.

        Nothing is known of the excess then, and for a while other writers may already have
        subtracted the deletions whose events arrive here.
        """
        self._known_since = now
        self._uncertain_until = now + OBSERVATION_WINDOW_SECONDS
        self._is_rejected = False
        self.deletion_pending_since = None
        self._last_change.clear()
        self._observed_deletions.clear()
        self._written.clear()
        self._minimum_excess.clear()

    def decide(
        self,
        totals: Mapping[str, int],
        used: Mapping[str, int],
        *,
        now: float,
        resync: bool = False,
    ) -> ReleaseDecision:
        """
        Return the number to write for each name of `totals` (RQ-B32, B33, B35).

        A full resync does not wait, but subtracts only the least excess since the last one:
        requests in progress come and go, stale usage stays.
        """
        self._expire(now)
        targets: dict[str, int] = {}
        deleted: dict[str, int] = {}
        stale: dict[str, int] = {}
        retained: dict[str, int] = {}
        waits: dict[str, float] = {}
        minimums: dict[str, int] = {}
        for name, total in totals.items():
            excess = max(used.get(name, total) - total, 0)
            deleted[name] = max(min(self._observed_deletions.get(name, 0), excess), 0)
            unexplained = excess - deleted[name]
            known_minimum = 0 if name in self._written else self._minimum_excess.get(name, 0)
            minimum = minimums[name] = min(known_minimum, unexplained)
            wait = self._unchanged_since(name) + self._settle_seconds - now
            stale[name] = unexplained if wait < MIN_WAIT_SECONDS else minimum if resync else 0
            retained[name] = unexplained - stale[name]
            targets[name] = total + retained[name]
            if retained[name]:
                waits[name] = wait
        # The excess of a name without a total is unknown, so its minimum is dropped.
        self._minimum_excess = minimums
        self._excess_since = {name: self._excess_since.get(name, now) for name in waits}
        shortest = min(waits.values(), default=0.0)
        return ReleaseDecision(
            targets=targets,
            observed_deletions=deleted,
            stale_usage=stale,
            retained=retained,
            deferred=tuple(waits),
            wait_seconds=shortest,
        )

    def write_started(self, decision: ReleaseDecision, *, now: float) -> None:
        """Record that a decision is about to be written."""
        self._is_rejected = False
        self._written = {}
        self._written_at = now
        for name, deleted in decision.observed_deletions.items():
            if amount := deleted + decision.stale_usage[name]:
                self._written[name] = amount
            self._observed_deletions[name] = self._observed_deletions.get(name, 0) - deleted

    def write_rejected(self, decision: ReleaseDecision) -> None:
        """
        Record that the server rejected the write of a decision.

        What `used` has lost in the meantime is not subtracted again: another writer did it, or the
        request was sent twice and the first one was stored.
        """
        self._is_rejected = True
        for name, deleted in decision.observed_deletions.items():
            returned = min(deleted, self._written.get(name, 0))
            self._observed_deletions[name] = self._observed_deletions.get(name, 0) + returned
        self._written.clear()

    def sync_finished(self) -> None:
        """Record that a sync has nothing more to write."""
        self._is_rejected = False
        if not any(self._observed_deletions.values()):
            self.deletion_pending_since = None

    def resync_finished(self, decision: ReleaseDecision) -> None:
        """Record that a full resync of the quota is done; the minimum excess starts again."""
        self._minimum_excess.update(decision.retained)

    def excess_since(self) -> float | None:
        """Return the time since which a number is above its total and not lowered."""
        return min(self._excess_since.values(), default=None)

    def _unchanged_since(self, name: str) -> float:
        """Return the time since which neither `used` nor the total can have changed."""
        changed = self._last_change.get(name, self._known_since)
        return max(changed, self._written_at) if name in self._written else changed

    def _add_observed_deletion(self, name: str, amount: int, *, now: float) -> None:
        self._expire(now)
        self._observed_deletions[name] = self._observed_deletions.get(name, 0) + amount
        self._observed_at = now

    def _expire(self, now: float) -> None:
        """Forget the deletions once the observation window is over."""
        if not self._observed_deletions or self._is_rejected:
            return
        if now - self._observed_at > OBSERVATION_WINDOW_SECONDS:
            self._observed_deletions.clear()
            self.deletion_pending_since = None
