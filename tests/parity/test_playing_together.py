"""Which scenarios share a server, how failing seeds are made short, and what is recorded."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from parity.batches import MOST_NODES, batches
from parity.catalogue import WORKLOADS
from parity.lateness import Lateness
from parity.recordings import Recordings
from parity.resources import Ref
from parity.result import Result
from parity.scenario import Cluster, Scenario, owned
from parity.scenarios.nodes import node, nodes
from parity.scenarios.ranges import gone, no_address
from parity.steps import Look, Machine, Quiet, Step, Wait
from parity.workload import Moves, Workload, shortest


def story(name: str, *steps: Step, alone: bool = False, proxied: bool = False) -> Scenario:
    """Return a scenario."""
    return Scenario(name, "ttl", "TTL-1", steps, cluster=Cluster(proxied=proxied), alone=alone)


def test_scenarios_share_a_server_where_they_can() -> None:
    """Alone, another cluster, or the machine touched at another place: another server."""
    made = [
        story("a", node("n")),
        story("b", node("n"), Look("one"), node("m")),
        story("alone", node("n"), alone=True),
        story("proxied", node("n"), proxied=True),
        story("stops", node("n"), Machine.STOP),
        story("stops too", Machine.STOP, node("n"), Quiet()),
        story("stops later", node("n"), Quiet(), Machine.STOP),
    ]
    names = [[one.name for one in batch] for batch in batches(made)]
    assert sorted(names) == [
        ["a", "b"], ["alone"], ["proxied"], ["stops", "stops too"], ["stops later"],
    ]  # fmt: skip


def test_a_shared_server_never_has_many_nodes() -> None:
    """Together they stay below the first step of the ttl's table, TTL-24."""
    made = [story(f"{number}", nodes(range(30))) for number in range(5)]
    assert [len(batch) for batch in batches(made)] == [2, 2, 1]
    assert MOST_NODES < 90


def test_a_name_is_the_scenarios_own_everywhere() -> None:
    """Keys, values, lists and pieces of texts get the prefix."""
    given = {"$a": ["$b", {"of": "x/$c"}], "plain": 1}
    assert owned(given, "s1-") == {"s1-a": ["s1-b", {"of": "x/s1-c"}], "plain": 1}


def test_references_are_checked() -> None:
    """A reference to an unknown resource, or without its namespace, is refused with a remedy."""
    assert Ref.parse("pods/ns/p").path == "/api/v1/namespaces/ns/pods/p"
    with pytest.raises(ValueError, match="add it to"):
        Ref.parse("unknown/x")
    with pytest.raises(ValueError, match="write RESOURCE/NAME"):
        Ref.parse("pods/p")


def test_a_failing_seed_is_made_short() -> None:
    """Only the moves and steps that are needed to fail are left."""
    steps = [node(f"n{number}") for number in range(12)]
    moves: Moves = [tuple(steps[place : place + 3]) for place in range(0, 12, 3)]
    needed = steps[4], steps[10]

    def fail(candidates: Sequence[Moves]) -> list[bool]:
        return [all(any(step in move for move in one) for step in needed) for one in candidates]

    assert shortest(moves, fail) == [(), (steps[4],), (), (steps[10],)]


def test_a_seed_that_fails_no_more_stays_whole() -> None:
    """Where no shorter one fails, the moves stay as they are."""
    moves: Moves = [(node("a"),), (node("b"), node("c"))]
    assert shortest(moves, lambda candidates: [False] * len(candidates)) == moves


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.controller)
def test_a_seed_always_makes_the_same_scenario(workload: Workload) -> None:
    """Nothing but the seed decides, and other seeds make other scenarios."""
    digests = [workload.of_seed(seed).digest for seed in range(20)]
    assert digests == [workload.of_seed(seed).digest for seed in range(20)]
    assert len(set(digests)) == 20


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.controller)
def test_moves_can_be_left_out(workload: Workload) -> None:
    """With any move empty there is still a scenario, of which all references can be read."""
    moves = workload.moves(Random(1))
    for place in range(len(moves)):
        left = [() if number == place else move for number, move in enumerate(moves)]
        assert workload.with_moves("shorter", 1, left).refs


def test_recordings_are_read_as_written(tmp_path: Path) -> None:
    """What is kept comes back, and only for the scenario as it was."""
    scenario = story("a", node("n"))
    result = Result(
        looks={"one": {"nodes/$n": {"a": 1}, "nodes/$m": {"a": 1}}},
        events=["told"],
        writes={"ttl": {"patch nodes 200": 2}},
    )
    Recordings("ttl", folder=tmp_path).keep([(scenario, result)], [scenario])
    assert Recordings("ttl", folder=tmp_path).of(scenario) == result
    assert Recordings("ttl", folder=tmp_path).of(story("a", node("m"))) is None
    assert Recordings("ttl", folder=tmp_path).of(story("b", node("n"))) is None


def test_recordings_of_forgotten_scenarios_go(tmp_path: Path) -> None:
    """A scenario that there is no more leaves no recording behind."""
    one, other = story("a", node("n")), story("b", node("n"))
    Recordings("ttl", folder=tmp_path).keep([(one, Result()), (other, Result())], [one, other])
    Recordings("ttl", folder=tmp_path).keep([(one, Result())], [one])
    assert Recordings("ttl", folder=tmp_path).of(other) is None


SETTLED = Wait(10.5, assumes=9.0, since="servicecidrs")


@pytest.mark.parametrize(("seconds", "late"), [(8.9, False), (9.1, True)])
def test_a_look_that_comes_too_late_is_told(seconds: float, late: bool) -> None:
    """What a look shows after the time that its scenario assumes is not compared."""
    now = [100.0]
    look = Look("within the grace")
    steps = (gone("a"), look, SETTLED, look, gone("b"), look, SETTLED, look)
    lateness = Lateness(story("a", *steps), clock=lambda: now[0])
    for deleted in (gone("a"), gone("b")):
        assert lateness.of(look) == ""  # nothing was deleted
        lateness.asks(no_address("10.$.0.7"))  # no range
        lateness.asks(deleted)
        now[0] += seconds
        lateness.asks(gone("c"))  # the first deletion counts
        assert bool(lateness.of(look)) is late
        lateness.waits(SETTLED)
        now[0] += 100
    assert lateness.of(look) == ""


def test_an_assumption_is_no_part_of_a_recording() -> None:
    """What is recorded does not depend on how long the look at it may take."""
    assert story("a", SETTLED).digest == story("a", Wait(10.5)).digest
