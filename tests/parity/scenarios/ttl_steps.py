"""The ttl controller: the table of steps, each on a server whose nodes are its own."""

from typing import Any

from parity.scenario import Scenario
from parity.scenarios.nodes import annotate, gone, heartbeats, nodes
from parity.steps import RESTART, Look, Quiet


def story(name: str, rules: str, *steps: Any, **more: Any) -> Scenario:
    """Return a scenario that counts nodes."""
    return Scenario(name, "ttl", rules, steps, alone=True, **more)


#: Where there are hundreds, ten of them report and are looked at.
TEN, OF_TEN = range(10), "nodes/$n000"


def _reports(beat: int, *, of: range = TEN) -> tuple[Any, ...]:
    """Let nodes report their status once the step is known, and look at them."""
    only = OF_TEN if of == TEN else ""
    return Quiet(), heartbeats(of, beat), Look(f"after report {beat}", only)


def _down(beat: int, highest: int, count: int) -> tuple[Any, ...]:
    """Leave so many of the nodes up to the highest."""
    return gone(range(count, highest)), *_reports(beat)


SCENARIOS = (
    story(
        "one node above a hundred",
        "TTL-T3, TTL-T4, TTL-T5, TTL-24",
        nodes(range(1, 100)),
        Look("with 100"),
        nodes([100]),
        *_reports(1, of=range(101)),
        before=(nodes([0]),),
    ),
    story(
        "a change of step is told to all at once",
        "TTL-26",
        nodes([100]),
        Look("with 101"),
        before=(nodes(range(100)),),
        differs=("ttl d",),
    ),
    story(
        "ninety and one less",
        "TTL-T6, TTL-T7, TTL-T8, TTL-82",
        nodes([100]),
        *_reports(1, of=range(101)),
        gone(range(90, 101)),
        *_reports(2, of=range(90)),
        gone([89]),
        *_reports(3, of=range(89)),
        nodes(range(89, 100)),
        *_reports(4, of=range(100)),
        nodes([100]),
        *_reports(5, of=range(101)),
        before=(nodes(range(100)),),
    ),
    story(
        "a start comes from below",
        "TTL-10, TTL-82",
        Look("95 at the start"),
        nodes(range(95, 102)),
        *_reports(1, of=range(102)),
        gone(range(95, 102)),
        *_reports(2, of=range(95)),
        *RESTART,
        Look("95 after a restart"),
        before=(nodes(range(95), "15"),),
        counted=False,
    ),
    story(
        "a start above the first step",
        "TTL-32, TTL-T9",
        Quiet(),
        annotate("n0007", "0"),
        before=(nodes(range(130)),),
    ),
    story(
        "between 15 and 30 seconds",
        "TTL-T9, TTL-T10",
        nodes([500]),
        *_reports(1),
        gone(range(450, 501)),
        *_reports(2),
        gone([449]),
        *_reports(3),
        gone(range(10, 449)),
        Quiet(),
        heartbeats(TEN, 4),
        before=(nodes(range(500), "15"),),
        counted=False,
    ),
    story(
        "the whole table, from the top down",
        "TTL-T11 to TTL-T14, TTL-25",
        *_reports(1),
        *_down(2, 2001, 1800),
        *_down(3, 1800, 1799),
        *_down(4, 1799, 900),
        *_down(5, 900, 899),
        *_down(6, 899, 450),
        *_down(7, 450, 449),
        *_down(8, 449, 90),
        *_down(9, 90, 89),
        gone(range(10, 89)),
        before=(nodes(range(2001), "300"),),
        counted=False,
    ),
)
