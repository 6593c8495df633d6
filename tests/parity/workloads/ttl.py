"""Random days in the life of nodes, around the first step of the ttl's table."""

from collections.abc import Callable, Iterator
from random import Random

from parity.scenario import asks
from parity.scenarios.nodes import annotate, gone, heartbeat, nodes
from parity.steps import RESTART, Look, Machine, Quiet, Step, together
from parity.workload import Move, Moves, Workload

BORDER = range(86, 105)
TEXTS = ("0", "15", "30", "000", "015", "+15", "abc", "-1", "", " 15", None)
MOVES = 4


class _Nodes:
    """The nodes there are, by number, while moves are drawn."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.next = random.choice(BORDER)
        self.there = list(range(self.next))

    def some_come(self) -> Move:
        count = self.random.randint(1, 12)
        new = range(self.next, self.next + count)
        self.next += count
        self.there += new
        return (nodes(new),)

    def some_go(self) -> Move:
        went = self.random.sample(self.there, min(len(self.there), self.random.randint(1, 14)))
        self.there = [number for number in self.there if number not in went]
        return (gone(went),)

    def one_comes_and_goes(self) -> Move:
        self.next += 1
        return nodes([self.next - 1]), gone([self.next - 1])

    def some_are_edited(self) -> Move:
        chosen = self.random.sample(self.there, 3)
        return tuple(annotate(f"n{number:04}", self.random.choice(TEXTS)) for number in chosen)

    def restart(self) -> Move:
        return RESTART

    def all_changes_while_down(self) -> Move:
        return (
            Machine.STOP,
            *self.some_come(),
            *self.some_go(),
            *self.some_are_edited(),
            Machine.START,
        )

    def killed_at_work(self) -> Move:
        return (*self.some_come(), Machine.KILL, *self.some_go(), Machine.START)

    def expired(self) -> Move:
        return Machine.EXPIRE, *self.some_go()


def moves(random: Random) -> Moves:
    """Return what happens: nodes come and go, are edited, and the controllers end and start."""
    cluster = _Nodes(random)
    kinds: dict[Callable[[], Move], int] = {
        cluster.some_come: 6,
        cluster.some_go: 6,
        cluster.one_comes_and_goes: 3,
        cluster.some_are_edited: 3,
        cluster.restart: 2,
        cluster.all_changes_while_down: 2,
        cluster.killed_at_work: 2,
        cluster.expired: 1,
    }
    first: Move = (nodes(cluster.there, random.choice(TEXTS)),)
    drawn = random.choices(list(kinds), list(kinds.values()), k=MOVES)
    return [first, *(draw() for draw in drawn)]


def steps(drawn: Moves) -> Iterator[Step]:
    """
    Return the steps of these moves.

    After each all nodes report their status: the reference puts them right only then (the
    declared Difference ttl d), so a look before would show nothing else.
    """
    for number, move in enumerate(drawn[1:], 1):
        if move:
            there = _there(drawn[: number + 1])
            reports = together(heartbeat(node, number) for node in there)
            yield from (*move, Quiet(), reports, Look(f"after move {number}"))


def _there(drawn: Moves) -> list[str]:
    there: dict[str, None] = {}
    for ask in asks(step for move in drawn for step in move):
        name = ask.ref.removeprefix("nodes/$")
        if ask.verb == "create":
            there[name] = None
        elif ask.verb == "delete":
            there.pop(name, None)
    return list(there)


WORKLOAD = Workload(
    "ttl", "TTL-20 to TTL-42", moves, steps, seeds_in_tests=3, options={"alone": True}
)
