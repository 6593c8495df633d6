"""Random workloads: a seed makes moves, moves make a scenario, and a failing one is made short."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from parity.scenario import Cluster, Scenario
from parity.steps import Ask, Look, Machine, Quiet, Refuse, Step, Together

#: What belongs together and is left out together when a failing seed is made shorter. The first
#: move of a workload is what is there before the controllers start.
Move = tuple[Step, ...]
Moves = list[Move]
#: How probable a change is beside the others, and what makes it.
Kinds = Sequence[tuple[int, Callable[[], Ask | Together]]]


@dataclass(frozen=True, slots=True)
class Workload:
    """The random workload of one controller."""

    controller: str
    rules: str
    moves: Callable[[Random], Moves]
    """Returns the moves; nothing but the random numbers decides."""
    steps: Callable[[Moves], Iterable[Step]]
    """
    Returns the steps of the moves after the first one; some of the moves may be empty.

    They wait between moves wherever the result would otherwise be chance. Where all scenarios of
    a workload touch the machine at the same places, they are played together.
    """
    seeds_in_tests: int
    """How many seeds are recorded and played in every run of the tests."""
    clusters: tuple[Cluster, ...] = (Cluster(),)
    """What the seeds are played on, in turn."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the scenarios."""

    def moves_of(self, seed: int) -> Moves:
        """Return the moves of a seed."""
        return self.moves(Random(seed))

    def of_seed(self, seed: int) -> Scenario:
        """Return the scenario of a seed."""
        return self.with_moves(f"seed {seed}", seed, self.moves_of(seed))

    def with_moves(self, name: str, seed: int, moves: Moves) -> Scenario:
        """Return a scenario of these moves, on the cluster of this seed."""
        return Scenario(
            name,
            self.controller,
            self.rules,
            tuple(self.steps(moves)),
            before=tuple(each for each in moves[0] if isinstance(each, Ask | Together | Refuse)),
            cluster=self.clusters[seed % len(self.clusters)],
            counted=False,
            tolerant=True,
            **self.options,
        )


def drawn(random: Random, kinds: Kinds, count: int) -> Iterator[Ask | Together]:
    """Return so many changes, each as probable as its number says."""
    chosen = random.choices(list(kinds), [weight for weight, _ in kinds], k=count)
    return (make() for _, make in chosen)


def with_looks(
    moves: Moves, *, down: int, waits: Mapping[int, Step] | None = None
) -> Iterator[Step]:
    """
    Return the steps of the moves after the first one, with a look after each.

    The controllers are down during the move of the number `down`; `waits` come before moves.
    """
    for number, move in enumerate(moves[1:], 1):
        if waits and number in waits:
            yield waits[number]
        if number == down:
            yield from (Machine.STOP, *move, Machine.START)
        else:
            yield from (*move, Look(f"after move {number}") if move else Quiet())


#: A step's place: the move, and where in it.
Place = tuple[int, int]


def shortest(moves: Moves, fail: Callable[[Sequence[Moves]], Sequence[bool]]) -> Moves:
    """
    Leave out whatever is not needed to fail: whole moves, and steps within moves.

    `fail` says of each candidate whether it still fails; it gets many at once, so that they can
    be played together. Gives the moves themselves when no shorter ones fail.
    """
    kept = {(number, place) for number, move in enumerate(moves) for place in range(len(move))}

    def still_failing(parts: list[set[Place]]) -> list[set[Place]]:
        verdicts = fail([_only(moves, kept - part) for part in parts])
        return [part for part, failed in zip(parts, verdicts, strict=True) if failed]

    while kept:
        needless = still_failing(_parts(kept))
        if not needless:
            break
        # What can be left out singly can often be left out together.
        unions = [set().union(*needless[: n + 1]) for n in range(1, len(needless))]
        kept -= max([*needless, *(still_failing(unions) if unions else [])], key=len)
    return _only(moves, kept)


def _parts(kept: set[Place]) -> list[set[Place]]:
    """Return what might be left out: each move, and each step of those with several."""
    moves: dict[int, set[Place]] = {}
    for place in sorted(kept):
        moves.setdefault(place[0], set()).add(place)
    steps = [{place} for move in moves.values() if len(move) > 1 for place in sorted(move)]
    return [*moves.values(), *steps]


def _only(moves: Moves, kept: set[Place]) -> Moves:
    return [
        tuple(step for place, step in enumerate(move) if (number, place) in kept)
        for number, move in enumerate(moves)
    ]
