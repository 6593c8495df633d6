"""What the deferred release subtracts after any changes, without a cluster."""

import pytest
from plugins.tables import row

from kcm_host_resourcequota.deferred_release import DeferredRelease, ReleaseDecision

SETTLE = 100.0


class Story:
    """
    One name, at first with five objects, and what happens to it: `time event [number]`.

    The last step is followed by a decision. `in_flight` is the decision of the last write.
    """

    def __init__(self, text: str) -> None:
        self.release = DeferredRelease(now=0.0, settle_seconds=SETTLE)
        self.total = self.used = 5
        self.now = 0.0
        self.in_flight = ReleaseDecision({})
        self.last = ReleaseDecision({})
        for step in text.split(", "):
            at, event, number = [*step.split(), "1"][:3]
            self.now = float(at)
            getattr(self, event)(int(number))

    def deleted(self, number: int) -> None:
        self.total -= number
        self.release.usage_changed({"pods": -number}, now=self.now)

    def created(self, number: int) -> None:
        self.total += number
        self.release.usage_changed({"pods": number}, now=self.now)

    def admitted(self, number: int) -> None:
        """Admission has raised `used`."""
        self.used += number
        self.release.used_changed("pods", now=self.now)

    def lowered(self, number: int) -> None:
        """Another writer has, or the own write is seen."""
        self.used -= number
        self.release.used_changed("pods", now=self.now, lowered=number)

    def listed(self, _number: int) -> None:
        self.release.relisted(now=self.now)

    def decided(self, _number: int, *, resync: bool = False) -> None:
        wanted = {"resync": True} if resync else {}
        self.last = self.release.decide(
            {"pods": self.total}, {"pods": self.used}, now=self.now, **wanted
        )

    def sent(self, _number: int, *, resync: bool = False) -> None:
        self.decided(1, resync=resync)
        self.in_flight = self.last
        self.release.write_started(self.last, now=self.now)

    def resync_sent(self, _number: int) -> None:
        self.sent(1, resync=True)

    def resynced(self, _number: int) -> None:
        self.decided(1, resync=True)
        self.release.resync_finished(self.last)

    def rejected(self, _number: int) -> None:
        self.release.write_rejected(self.in_flight)

    def finished(self, _number: int) -> None:
        self.release.sync_finished()


@pytest.mark.parametrize(
    ("text", "retained"),
    [
        row("a deletion is subtracted at once", "1 deleted", 0),
        row("for two seconds", "1 deleted, 3 decided", 0),
        row("and then expires", "1 deleted, 3.1 decided", 1),
        row("a request in progress", "1 admitted", 1),
        row("is waited for", "1 admitted, 100.9 decided", 1),
        row("and no longer than the settle time", "1 admitted, 101 decided", 0),
        row("any change", "1 admitted, 60 created, 120 admitted, 219 decided", 1),
        row("a write in flight has subtracted it", "1 deleted, 1 sent", 1),
        row("which is seen", "1 deleted, 1 sent, 1 lowered", 0),
        row("rejected", "1 deleted, 1 sent, 1 rejected", 0),
        row("and does not expire", "1 deleted, 1 sent, 1 rejected, 9 decided", 0),
        row("unless done", "1 deleted, 1 sent, 1 rejected, 2 finished, 9 decided", 1),
        row("again", "1 deleted, 1 sent, 1 rejected, 1 sent, 2 deleted, 9 decided", 2),
        row("rejected late", "1 deleted, 1 sent, 4 decided, 4 rejected", 0),
        row("and no more", "1 deleted, 1 sent, 4 decided, 4 admitted, 4 rejected", 1),
        row("beside another one", "1 deleted, 1 sent, 1.5 deleted, 2 rejected", 0),
        row("admitted meanwhile", "1 deleted, 1 sent, 1 admitted, 1 rejected", 1),
        row("by another", "1 deleted, 1 sent, 1 lowered, 1 admitted, 1 rejected", 1),
        row("by another before the event", "1 lowered, 1 deleted, 1 admitted", 1),
        row("no longer", "1 deleted, 1 sent, 1.5 deleted, 3 lowered, 3.6 decided", 1),
        row("a lost write", "59 deleted, 60 sent, 159.9 decided", 1),
        row("is repeated", "59 deleted, 60 sent, 160 decided", 0),
        row("a list may hide who subtracted it", "1 listed, 2 deleted", 1),
        row("for two seconds after it", "1 listed, 3 deleted", 0),
        row("a list may hide a change", "1 admitted, 50 listed, 149 decided", 1),
        row("until the settle time", "1 admitted, 50 listed, 150 decided", 0),
        row("a list forgets deletions", "1 deleted, 1 listed", 1),
        row("and rejections", "1 deleted, 1 sent, 1 rejected, 2 listed, 5 deleted, 8 decided", 2),
        row("a resync", "1 admitted 2, 2 resynced, 3 resynced", 0),
        row("and not another sync", "1 admitted 2, 2 resynced, 3 decided", 2),
        row("the least excess", "1 admitted 2, 2 resynced, 3 admitted, 4 resynced", 1),
        row("anew", "1 admitted 2, 2 resynced, 3 created, 4 resynced, 5 admitted 2, 6 resynced", 3),
        row("unknown after lists", "1 admitted 2, 2 resynced, 2 listed, 3 resynced", 2),
        row("in flight", "1 admitted 2, 2 resynced, 3 deleted, 3 sent, 4 resynced", 3),
        row(
            "a write of both kinds",
            "1 admitted, 2 resynced, 3 deleted, 3 resync_sent, 4 lowered 2, 5 admitted, 5 deleted",
            1,
        ),
    ],
)
def test_what_stays_above_the_total(text: str, retained: int) -> None:
    """Only what is certain not to be a request in progress is subtracted (RQ-B32 to B36, F-5)."""
    story = Story(text)
    if story.last.retained == {} or not text.endswith(("decided", "resynced")):
        story.decided(1)
    assert story.last.targets["pods"] - story.total == retained


def test_an_excess_has_an_age_until_it_is_gone() -> None:
    """The first time counts, whatever is added (RQ-B60)."""
    story = Story("1 admitted, 2 decided, 3 admitted, 4 decided")
    assert story.release.excess_since() == 2.0
    assert (story.last.deferred, story.last.wait_seconds) == (("pods",), 99.0)
    story.created(2)
    story.decided(1)
    assert story.release.excess_since() is None
    assert (story.last.deferred, story.last.wait_seconds) == ((), 0.0)


def test_a_deletion_is_pending_until_it_is_written() -> None:
    """A sync without a write leaves it pending; the first of several counts (RQ-B60)."""
    story = Story("1 deleted, 2 deleted, 2 finished")
    assert story.release.deletion_pending_since == 1.0
    story.sent(1)
    story.finished(1)
    assert story.release.deletion_pending_since is None


def test_names_settle_each_for_itself() -> None:
    """A write that lowers one name does not restart the time of another (RQ-B35)."""
    release = DeferredRelease(now=0.0, settle_seconds=SETTLE)
    totals, used = {"pods": 1, "cpu": 5}, {"pods": 2, "cpu": 6}
    release.usage_changed({"cpu": -1}, now=60.0)
    release.write_started(release.decide(totals, used, now=60.0), now=60.0)
    decision = release.decide(totals, used, now=100.0)
    assert decision.targets == {"pods": 1, "cpu": 6}
    assert decision.wait_seconds == 60.0


def test_a_resync_releases_nothing_that_could_not_be_counted() -> None:
    """While a pod is undecodable its total is unknown, so the excess is no longer certain (F-5)."""
    release = DeferredRelease(now=0.0, settle_seconds=1000.0)
    release.resync_finished(release.decide({"pods": 4}, {"pods": 5}, now=1.0))
    release.decide({}, {"pods": 5}, now=2.0)
    found = release.decide({"pods": 4}, {"pods": 5}, now=3.0, resync=True)
    assert found.targets == {"pods": 5}
