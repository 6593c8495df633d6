"""Random lives of pods and claims: made, shared, allocated, used, ended, deleted, lost."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from parity.scenarios.claims import (
    FOREIGN,
    OTHER_UID,
    Body,
    allocate,
    by_name,
    by_template,
    claim,
    held,
    let_go,
    made,
    now,
    phase,
    pod,
    reserve,
    template,
    user,
    users,
)
from parity.steps import Ask, Quiet, Step, bind, delete
from parity.workload import Move, Moves, Workload, with_looks

MOVES = 9
#: During this move the controllers are down.
DOWN = 5
TEMPLATES = ("t", "t", "t", "late")
ENDS = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Pod:
    """What is known of a pod while moves are drawn."""

    name: str
    template: str
    shared: str
    scheduled: bool
    allocated: bool = False
    gone: bool = False
    ended: bool = False
    claim_lost: bool = False

    @property
    def entries(self) -> list[Body]:
        own = [by_template("own", self.template)] if self.template else []
        return own + ([by_name(self.shared, "shared")] if self.shared else [])


class _Cluster:
    """
    Draws what happens to pods and claims.

    Left out is what the reference does without end or by chance: a pod with two claims of its own
    of which one is lost, an ended pod beside other users of a claim, a claim lost while the
    reference remembers it, a pod that gets a place in a claim while another gets or loses one.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self._choice = random.choice
        self.pods: list[_Pod] = []
        self.shared = {"c0": False, "c1": False}
        self.lost: set[str] = set()
        self.late_is_there = False
        self._next = 0

    # Pods.

    def comes(self) -> Move:
        free = [name for name in self.shared if name not in self.lost]
        return self._comes(*free, "", "missing")

    def _comes(self, *shared: str) -> Move:
        self._next += 1
        one = _Pod(
            f"p{self._next}",
            self._choice((*TEMPLATES, "")),
            self._choice(shared),
            self.random.random() < 0.4,
        )
        self.pods.append(one)
        return (pod(one.name, *(one.entries or [by_name("none")]), node="n" * one.scheduled),)

    def gets_a_node(self) -> Move:
        one = self._some(lambda one: not one.scheduled and one.shared not in self.lost)
        if one is None:
            return self.comes()
        one.scheduled = True
        return (bind(f"pods/$ns/{one.name}", "n"),)

    def gets_devices(self) -> Move:
        one = self._some(lambda one: self._has_claim(one) and not one.allocated)
        if one is None:
            return self.comes()
        one.allocated = True
        consumers = [] if self.random.random() < 0.4 else users(one.name)
        if self.random.random() < 0.2 and (consumers or not one.scheduled):
            consumers.append(user("never", uid=OTHER_UID))
        return allocate(made(one.name, "own"), *consumers)

    def runs(self) -> Move:
        one = self._some(lambda one: one.scheduled)
        return (phase(one.name, "Running"),) if one else self.comes()

    def ends(self) -> Move:
        one = self._some(lambda one: self._has_claim(one) and not one.shared)
        if one is None:
            return self.goes()
        one.ended = True
        return (phase(one.name, self._choice(ENDS)),)

    def goes(self) -> Move:
        """Deleted as by kubelets, or before it ran: it is seen that it is being deleted."""
        one = self._some(lambda one: True)
        if one is None:
            return self.comes()
        one.gone = True
        last = (phase(one.name, self._choice(ENDS)),) if one.scheduled else ()
        return (*held([one.name]), *last, Quiet(), *let_go(one.name))

    def is_removed(self) -> Move:
        one = self._some(lambda one: one.scheduled)
        if one is None:
            return self.goes()
        one.gone = True
        return (now(f"pods/$ns/{one.name}"),)

    # Claims.

    def shared_comes(self) -> Move:
        name = self._choice(list(self.shared))
        self.lost.discard(name)
        return (claim(name),)

    def shared_gets_devices(self) -> Move:
        """For all its pods that have a node but one at most, so that the order is no chance."""
        free = [name for name, used in self.shared.items() if not used and name not in self.lost]
        if not free:
            return self.shared_goes()
        name = self._choice(free)
        self.shared[name] = True
        names = [one.name for one in self.pods if self._uses(one, name)]
        consumers = users(*names[1:]) if self.random.random() < 0.5 else users(*names)
        if self.random.random() < 0.3 and (consumers or not names):
            consumers.append(self._choice((FOREIGN, user("never", uid=OTHER_UID))))
        if self.random.random() < 0.2:
            return (claim(name), reserve(name, *consumers))
        return (claim(name), *allocate(name, *consumers))

    def shared_goes(self) -> Move:
        """Who is there stays; nobody comes to it any more."""
        name = self._choice(list(self.shared))
        self.lost.add(name)
        return (delete(f"resourceclaims/$ns/{name}"),)

    def late_comes(self) -> Move:
        self.late_is_there = not self.late_is_there
        return (template("late") if self.late_is_there else _no_template("late"),)

    def old_claim(self) -> Move:
        self._next += 1
        of = self._choice([one.name for one in self.pods] or ["nobody"])
        return (claim(f"old{self._next}", of=of, uid=OTHER_UID),)

    def all_while_down(self) -> Move:
        """A claim is lost, a pod comes, another is gone, one has ended."""
        moves: list[Move] = [self._comes("")]
        lost = self._some(lambda one: self._has_claim(one) and not one.allocated)
        if lost is not None:
            lost.claim_lost = True
            moves.append((delete(f"resourceclaims/$ns/{made(lost.name, 'own')}"),))
        ended = self._some(lambda one: one.scheduled and not one.claim_lost)
        if ended is not None:
            ended.gone = True
            moves.append((*held([ended.name]), phase(ended.name, self._choice(ENDS))))
        removed = self._some(lambda one: one.scheduled and not one.claim_lost)
        if removed is not None:
            removed.gone = True
            moves.append((now(f"pods/$ns/{removed.name}"),))
        return tuple(step for move in moves for step in move)

    def _some(self, which: Callable[[_Pod], bool]) -> _Pod | None:
        found = [one for one in self.pods if not one.gone and not one.ended and which(one)]
        return self._choice(found) if found else None

    def _has_claim(self, one: _Pod) -> bool:
        return one.template == "t" and not one.claim_lost

    def _uses(self, one: _Pod, name: str) -> bool:
        return one.shared == name and one.scheduled and not one.gone and not one.ended


def _no_template(name: str) -> Ask:
    return delete(f"resourceclaimtemplates/$ns/{name}")


def moves(random: Random) -> Moves:
    """Return what happens: some pods at the start, then one thing at a time."""
    cluster = _Cluster(random)
    kinds: dict[Callable[[], Move], int] = {
        cluster.comes: 5,
        cluster.gets_a_node: 4,
        cluster.gets_devices: 5,
        cluster.runs: 1,
        cluster.ends: 3,
        cluster.goes: 3,
        cluster.is_removed: 2,
        cluster.shared_comes: 1,
        cluster.shared_gets_devices: 5,
        cluster.shared_goes: 1,
        cluster.late_comes: 1,
        cluster.old_claim: 1,
    }
    first: Move = (template(), claim("c0"), *(step for _ in range(3) for step in cluster.comes()))
    drawn = random.choices(list(kinds), list(kinds.values()), k=MOVES)
    drawn[DOWN - 1] = cluster.all_while_down
    return [first, *(draw() for draw in drawn)]


def steps(drawn: Moves) -> Iterator[Step]:
    """Return the steps of these moves, each in two parts, with a look after it."""
    split = [tuple(_in_two_parts(move)) for move in drawn]
    split[DOWN] = tuple(step for step in drawn[DOWN] if step != Quiet())
    return with_looks(split, down=DOWN)


def _in_two_parts(move: Move) -> Iterator[Step]:
    """Add a wait where a move has none, so that all scenarios have the same number of waits."""
    yield from move
    if Quiet() not in move:
        yield Quiet()


WORKLOAD = Workload(
    "resourceclaim",
    "RC-35 to RC-62",
    moves,
    steps,
    seeds_in_tests=20,
    options={"also": ("resourceclaims",)},
)
