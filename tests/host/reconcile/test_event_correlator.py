"""Occurrences are counted, aggregated, or dropped by the spam filter (RC-72)."""

from dataclasses import dataclass
from typing import Any

import pytest
from clocks import Clock
from host.reconcile.event_occurrences import AT, SECOND, occurrence

from kcm_host.api.kinds import Key, Kind
from kcm_host.reconcile.event_correlator import COMBINED, Event, EventCorrelator


@dataclass
class Correlation:
    """A correlator with its clock."""

    clock: Clock
    correlator: EventCorrelator
    count: int = 0

    def record(self, message: str, **fields: Any) -> Event | None:
        """Record something now; no two occurrences have one time."""
        self.count += 1
        fields = {"at": AT + self.count * SECOND, **fields}
        return self.correlator.event(occurrence(message, **fields))

    def sent(self, message: str, **fields: Any) -> Event:
        """Record something that is sent."""
        event = self.record(message, **fields)
        assert event is not None
        return event

    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.clock.now += seconds


@pytest.fixture
def correlation() -> Correlation:
    """A correlator without occurrences."""
    clock = Clock()
    return Correlation(clock, EventCorrelator(clock))


def test_the_same_again_is_counted(correlation: Correlation) -> None:
    """One name and first time, and a count that grows, also for later versions (IQ-124)."""
    first, second, third = (correlation.sent("full", version=version) for version in "789")
    assert [first.count, second.count, third.count] == [1, 2, 3]
    assert first.name == second.name == third.name == f"n1.{AT + SECOND:x}"
    assert first.first == third.first == AT + SECOND
    assert third.occurrence.at == AT + 3 * SECOND


@pytest.mark.parametrize(
    "other",
    [
        {"message": "fuller"},
        {"reason": "Empty"},
        {"warning": False},
        {"component": "another"},
        {"uid": "u-2"},
        {"key": Key("n2")},
        {"key": Key("n1", "shop")},
        {"kind": Kind(group="acme.example", version="v1", name="Node", resource="nodes")},
    ],
    ids=["message", "reason", "type", "component", "uid", "name", "namespace", "kind"],
)
def test_what_differs_is_an_event_of_its_own(
    correlation: Correlation, other: dict[str, Any]
) -> None:
    """Source, object, type, reason and message together are what is counted (IQ-124)."""
    correlation.sent("full")
    assert correlation.sent(**{"message": "full", **other}).count == 1
    assert correlation.sent("full").count == 2


def test_thirty_equal_warnings(correlation: Correlation) -> None:
    """The first is new, then counts to 25; from the 26th on nothing is sent (IQ-T23)."""
    events = [correlation.record("full") for _ in range(30)]
    assert [event.count for event in events[:25] if event] == list(range(1, 26))
    assert events[25:] == [None] * 5


def test_one_more_is_admitted_each_300_seconds(correlation: Correlation) -> None:
    """After silence for 300 s one is sent, with all that were held back counted (IQ-125)."""
    for _ in range(30):
        correlation.record("full")
    correlation.wait(299)
    assert correlation.record("full") is None
    correlation.wait(1)
    assert correlation.sent("full").count == 32
    assert correlation.record("full") is None


def test_no_more_than_25_are_saved_up(correlation: Correlation) -> None:
    """A year of silence earns 25 Events, like the beginning did (IQ-125)."""
    correlation.sent("full")
    correlation.wait(365 * 86400)
    assert len([event for _ in range(40) if (event := correlation.record("full"))]) == 25


def test_each_source_has_its_own_spam_filter(correlation: Correlation) -> None:
    """Other objects, types and sources have 25 of their own; other reasons do not (IQ-125)."""
    for _ in range(25):
        correlation.record("full")
    assert correlation.record("empty", reason="Empty") is None
    assert correlation.sent("full", key=Key("n2"))
    assert correlation.sent("full", warning=False)
    assert correlation.sent("full", component="another")


def test_twelve_different_messages(correlation: Correlation) -> None:
    """Nine stand singly; from the tenth on one Event has the latest of them (IQ-T24)."""
    events = [correlation.sent(f"disk {number}") for number in range(12)]
    singles, combined = events[:9], events[9:]
    assert {event.count for event in singles} == {1}
    assert len({event.name for event in singles}) == 9
    assert [event.count for event in combined] == [1, 2, 3]
    assert {event.name for event in combined} == {f"n1.{AT + 10 * SECOND:x}"}
    assert combined[2].occurrence.message == f"{COMBINED}disk 11"


def test_a_single_message_stays_single(correlation: Correlation) -> None:
    """What had an Event of its own before is counted there, not in the summary (IQ-124)."""
    for number in range(11):
        correlation.sent(f"disk {number}")
    again = correlation.sent("disk 3")
    assert (again.count, again.occurrence.message) == (2, "disk 3")


@pytest.mark.parametrize(("seconds", "combined"), [(600, True), (601, False)])
def test_a_group_ends_after_ten_quiet_minutes(
    correlation: Correlation, seconds: int, combined: bool
) -> None:
    """Messages that come within 600 s of the one before belong together (IQ-123)."""
    for number in range(10):
        correlation.sent(f"disk {number}")
    correlation.wait(seconds)
    message = correlation.sent("disk 10").occurrence.message
    assert message.startswith(COMBINED) is combined


def test_slow_messages_are_one_group(correlation: Correlation) -> None:
    """600 s count from the last message, not from the first (IQ-123)."""
    for number in range(9):
        correlation.sent(f"disk {number}")
        correlation.wait(599)
    assert correlation.sent("disk 9").occurrence.message == f"{COMBINED}disk 9"


def test_messages_about_different_things_are_not_combined(correlation: Correlation) -> None:
    """A group is one reason of one source about one object (IQ-123)."""
    for number in range(20):
        event = correlation.sent(f"disk {number}", reason=f"Full{number}")
        assert event.occurrence.message == f"disk {number}"
    for number in range(20):
        event = correlation.sent(f"disk {number}", key=Key(f"n{number + 2}"))
        assert event.occurrence.message == f"disk {number}"


def test_the_least_recently_used_event_is_forgotten(correlation: Correlation) -> None:
    """An Event that occurred again stays, the one that has not for longest goes (IQ-122)."""
    correlation.sent("full", key=Key("often"))
    correlation.sent("full", key=Key("once"))
    correlation.sent("full", key=Key("often"))
    for number in range(4095):
        correlation.sent("full", key=Key(f"other-{number}"))
    assert correlation.sent("full", key=Key("often")).count == 3
    assert correlation.sent("full", key=Key("once")).count == 1
