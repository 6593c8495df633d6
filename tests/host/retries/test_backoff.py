"""How long a stream that ended waits."""

import pytest
from clocks import Clock

from kcm_host.retries import Backoff


def test_waits_double_up_to_half_a_minute() -> None:
    """0.8 s doubled each time, at most 30 s (IQ-2)."""
    backoff = Backoff(Clock(), lambda: 0.0)
    waits = [backoff.next_delay() for _ in range(8)]
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 0.8), (0.25, 1.0), (1.0, 1.6)])
def test_chance_adds_up_to_as_much_again(drawn: float, wait: float) -> None:
    """On top of each wait comes a random extra of 0 to 100 % of it (IQ-2)."""
    assert Backoff(Clock(), lambda: drawn).next_delay() == pytest.approx(wait)


def test_the_sequence_begins_anew_two_minutes_after_its_last_beginning() -> None:
    """The reset follows the clock alone, not two minutes without errors (IQ-3)."""
    clock = Clock()
    backoff = Backoff(clock, lambda: 0.0)
    waits = []
    for seconds in (0, 60, 120, 121, 180, 241, 242):
        clock.now = 1000.0 + seconds
        waits.append(backoff.next_delay())
    assert waits == pytest.approx([0.8, 1.6, 3.2, 0.8, 1.6, 3.2, 0.8])
