"""Random edits of roles in three levels: sources, roles made of them, and roles made of those."""

from collections.abc import Callable
from random import Random

from parity.scenario import Scenario
from parity.scenarios.roles import (
    R1,
    R2,
    R3,
    R5,
    R9,
    Rule,
    Selector,
    edit,
    having,
    relabel,
    role,
    rule,
    where,
)
from parity.steps import Ask, Look, Machine, Quiet, Refuse, Step, Together, delete
from parity.workload import Move, Moves, Workload

RULES = (R1, R2, R3, R5, R9, rule("pods", "list", "get"), rule("pods", "get", "list"))
#: Few, so that most selectors match several roles.
VALUES = ("x", "x", "y", "")
SOURCES = [f"s{number}" for number in range(7)]
#: Level -> its roles. They carry the label of their level and select only lower ones: roles that
#: select each other keep what they once had, so their end depends on who was faster.
LEVELS = {1: ["a0", "a1", "a2"], 2: ["b0", "b1"]}
SELECTED = {1: ("p", "q"), 2: ("r", "p")}
MOVES = 9
#: During this move the controllers are down.
DOWN = 5


class _Roles:
    """Draws changes of roles."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._choice = random.choice

    def source(self) -> Ask:
        keys = self.random.sample(("p", "q"), self._choice((0, 1, 2, 2)))
        labels = {key: self._choice(VALUES) for key in keys}
        return role(self._choice(SOURCES), *self._rules(), labels=labels)

    def relabelled(self) -> Ask:
        value = self._choice((*VALUES, None))
        return relabel(self._choice(SOURCES), **{self._choice(("p", "q")): value})

    def other_rules(self) -> Ask:
        return edit(self._choice(SOURCES), rules=self._rules() or None)

    def no_source(self) -> Ask:
        return delete(f"clusterroles/${self._choice(SOURCES)}")

    def aggregated(self) -> Ask:
        level = self._choice((1, 1, 2))
        labels = {"r": self._choice(VALUES)} if level == 1 else {}
        rules = self._rules() if self.random.random() < 0.3 else []
        name = self._choice(LEVELS[level])
        return role(name, *rules, labels=labels, selectors=self._selectors(level))

    def other_selectors(self) -> Ask:
        level = self._choice((1, 2))
        rule_of = {"clusterRoleSelectors": self._selectors(level)}
        return edit(self._choice(LEVELS[level]), aggregationRule=rule_of)

    def edited_by_hand(self) -> Ask:
        return edit(self._choice(LEVELS[1] + LEVELS[2]), rules=self._rules())

    def no_aggregated(self) -> Ask:
        return delete(f"clusterroles/${self._choice(LEVELS[1] + LEVELS[2])}")

    def _rules(self) -> list[Rule]:
        return self.random.choices(RULES, k=self._choice((0, 1, 2, 3)))

    def _selectors(self, level: int) -> list[Selector]:
        return [self._selector(*SELECTED[level]) for _ in range(self.random.randint(1, 2))]

    def _selector(self, one: str, other: str) -> Selector:
        some = self.random.sample(VALUES, self.random.randint(1, 2))
        return self._choice(
            (
                having(**{one: some[0]}),
                having(**{one: some[0], other: some[-1]}),
                where((one, "In", some)),
                where((one, "Exists")),
                where((one, "Exists"), (other, "NotIn", some)),
                where((one, "Exists"), (other, "DoesNotExist")),
            )
        )


def moves(random: Random) -> Moves:
    """Return what happens: first roles of all levels, then one change at a time."""
    roles = _Roles(random)
    kinds: dict[Callable[[], Ask], int] = {
        roles.source: 4,
        roles.relabelled: 4,
        roles.other_rules: 3,
        roles.no_source: 2,
        roles.aggregated: 3,
        roles.other_selectors: 2,
        roles.edited_by_hand: 2,
        roles.no_aggregated: 1,
    }
    sources = (roles.source() for _ in range(8))
    first: Move = (*sources, *(roles.aggregated() for _ in range(4)))
    drawn = random.choices(list(kinds), list(kinds.values()), k=MOVES)
    return [first, *((draw(),) for draw in drawn)]


def scenario(name: str, drawn: Moves) -> Scenario:
    """Return the scenario of these moves, with a look after each."""
    steps: list[Step] = []
    for number, move in enumerate(drawn[1:], 1):
        if number == DOWN:
            steps += [Machine.STOP, *move, Machine.START]
        else:
            steps += [*move, Look(f"after move {number}") if move else Quiet()]
    before = tuple(step for step in drawn[0] if isinstance(step, Ask | Together | Refuse))
    return Scenario(
        name,
        "clusterrole-aggregation",
        "CRA-10 to CRA-56",
        tuple(steps),
        before,
        counted=False,
        tolerant=True,
    )


WORKLOAD = Workload("clusterrole-aggregation", moves, scenario, seeds_in_tests=20)
