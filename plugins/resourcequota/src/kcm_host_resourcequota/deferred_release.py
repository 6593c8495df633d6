"""Which lower numbers may be written now, and which could be requests still on their way."""

from collections.abc import Mapping

import msgspec

#: A request that admission has counted shows up in every store within this time, or it is no
#: longer on its way; so an amount that could not be taken off for so long is not owed.
EVIDENCE_SECONDS = 2.0
#: What is left of a time is no shorter: sums of floats are not exact, and the clock has to move.
MOMENT_SECONDS = 0.001


class Decision(msgspec.Struct, frozen=True):
    """
    What to write for the names of one quota, in nano units.

    `owed` and `leaked` say how much of each lowering is due to objects that went, and how much
    to amounts that never became objects. `blocked` are names that have to wait, the shortest of
    them for `wait_seconds`.
    """

    targets: Mapping[str, int]
    owed: Mapping[str, int] = {}
    leaked: Mapping[str, int] = {}
    #: What stays above each total after this.
    left: Mapping[str, int] = {}
    blocked: tuple[str, ...] = ()
    wait_seconds: float = 0.0


class Settling:
    """
    What is known of one quota's recent past.

    Admission raises `used` before the object can be seen, so `used` above the total may be
    honest (RQ-253). Taken off at once is only what the ledger saw go; whatever else is above
    the total has to stay unchanged for the settle time first (RQ-B32). Times are seconds on one
    monotonic clock.

    What went is taken off once. It is no longer owed as soon as a write that takes it off is on
    its way, and only a refusal makes it owed again: of a write without an answer nobody knows
    whether it arrived.
    """

    def __init__(self, *, now: float, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        #: From here on it is known what has changed.
        self._born = now
        self._unsure_until = now
        self._changed: dict[str, float] = {}
        self._owed: dict[str, int] = {}
        self._owed_at = now
        #: The least that was above the total since the last full resync.
        self._floor: dict[str, int] = {}
        self._blocked: dict[str, float] = {}
        #: Since when something that went is not written.
        self.waiting_since: float | None = None
        #: What the write on its way, or the last one, takes off and `used` has not shown yet.
        self._sent: dict[str, int] = {}
        self._sent_at = now
        #: The last write was refused; what is owed stays owed until the next one.
        self._is_refused = False

    def moved(self, steps: Mapping[str, int], *, now: float) -> None:
        """Take note that totals of the quota have changed by so much."""
        for name, step in steps.items():
            self._changed[name] = now
            if step < 0 and now >= self._unsure_until:
                self._owe(name, -step, now=now)
                self.waiting_since = self.waiting_since or now

    def changed(self, name: str, *, now: float, lowered: int = 0) -> None:
        """
        Take note that `used` has another number for a name, `lowered` by so much.

        Admission never lowers: what our own write did not take off, another writer did, perhaps
        before we hear of what went.
        """
        self._changed[name] = now
        if lowered > 0:
            others = lowered - self._sent.pop(name, 0)
            if others > 0:
                self._owe(name, -others, now=now)

    def unsure(self, *, now: float) -> None:
        """
        Take note that a new list has told the quota: `used` may have gone down and up unseen.

        So nothing is known of what is above the totals, and for a while others may have taken
        off what we hear to have gone.
        """
        self._born = now
        self._unsure_until = now + EVIDENCE_SECONDS
        self._is_refused = False
        self.waiting_since = None
        for known in (self._changed, self._owed, self._sent, self._floor):
            known.clear()

    def decide(
        self,
        totals: Mapping[str, int],
        used: Mapping[str, int],
        *,
        now: float,
        resync: bool = False,
    ) -> Decision:
        """
        Give what each name of `totals` should say, given what it says now (RQ-B32, B33, B35).

        A full resync does not wait, but takes off only what was above the total at every moment
        since the one before: requests on their way come and go, a leaked amount stays.
        """
        self._expire(now)
        targets: dict[str, int] = {}
        owed: dict[str, int] = {}
        leaked: dict[str, int] = {}
        left: dict[str, int] = {}
        waits: dict[str, float] = {}
        floors: dict[str, int] = {}
        for name, total in totals.items():
            excess = max(used.get(name, total) - total, 0)
            owed[name] = max(min(self._owed.get(name, 0), excess), 0)
            rest = excess - owed[name]
            floor = 0 if name in self._sent else min(self._floor.get(name, 0), rest)
            floors[name] = floor
            wait = self._still_since(name) + self._settle_seconds - now
            leaked[name] = rest if wait < MOMENT_SECONDS else floor if resync else 0
            left[name] = rest - leaked[name]
            targets[name] = total + left[name]
            if left[name]:
                waits[name] = wait
        # Of a name that cannot be counted, nobody knows what was above its total meanwhile.
        self._floor = floors
        self._blocked = {name: self._blocked.get(name, now) for name in waits}
        shortest = min(waits.values(), default=0.0)
        return Decision(targets, owed, leaked, left, tuple(waits), shortest)

    def sending(self, decision: Decision, *, now: float) -> None:
        """Take note that a decision is about to be written."""
        self._is_refused = False
        sums = {name: owed + decision.leaked[name] for name, owed in decision.owed.items()}
        self._sent = {name: amount for name, amount in sums.items() if amount}
        self._sent_at = now
        for name, amount in decision.owed.items():
            self._owed[name] = self._owed.get(name, 0) - amount

    def refused(self, decision: Decision) -> None:
        """
        Take note that the server has not taken the decision that was sent.

        What `used` has shown to be taken off meanwhile is not owed again: somebody else did it,
        or the request was sent twice and arrived at first.
        """
        self._is_refused = True
        for name, amount in decision.owed.items():
            back = min(amount, self._sent.get(name, 0))
            self._owed[name] = self._owed.get(name, 0) + back
        self._sent.clear()

    def ended(self) -> None:
        """Take note that a sync has nothing left to write."""
        self._is_refused = False
        if not any(self._owed.values()):
            self.waiting_since = None

    def resynced(self, decision: Decision) -> None:
        """Take note that a full resync has done with the quota: from here on, count anew."""
        self._floor.update(decision.left)

    def drifting_since(self) -> float | None:
        """Since when a number has been above its total without being lowered."""
        return min(self._blocked.values(), default=None)

    def _still_since(self, name: str) -> float:
        """Since when neither `used` nor the total has changed, nor might have."""
        changed = self._changed.get(name, self._born)
        return max(changed, self._sent_at) if name in self._sent else changed

    def _owe(self, name: str, amount: int, *, now: float) -> None:
        self._expire(now)
        self._owed[name] = self._owed.get(name, 0) + amount
        self._owed_at = now

    def _expire(self, now: float) -> None:
        if self._owed and not self._is_refused and now - self._owed_at > EVIDENCE_SECONDS:
            self._owed.clear()
            self.waiting_since = None
