"""Random edits of roles in three levels: sources, roles made of them, and roles made of those."""

from functools import partial
from random import Random

from parity.scenarios import roles
from parity.scenarios.roles import Rule, Selector, edit, having, relabel, role, rule, where
from parity.steps import Ask, delete
from parity.workload import Kinds, Move, Moves, Workload, drawn, with_looks

RULES = (
    *(roles.R1, roles.R2, roles.R3, roles.R5, roles.R9),
    *(rule("pods", "list", "get"), rule("pods", "get", "list")),
)
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


def moves(random: Random) -> Moves:
    """Return what happens: first roles of all levels, then one change at a time."""
    choice = random.choice
    aggregated = LEVELS[1] + LEVELS[2]

    def rules() -> list[Rule]:
        return random.choices(RULES, k=choice((0, 1, 2, 3)))

    def selector(one: str, other: str) -> Selector:
        some = random.sample(VALUES, random.randint(1, 2))
        return choice(
            (
                having(**{one: some[0]}),
                having(**{one: some[0], other: some[-1]}),
                where((one, "In", some)),
                where((one, "Exists")),
                where((one, "Exists"), (other, "NotIn", some)),
                where((one, "Exists"), (other, "DoesNotExist")),
            )
        )

    def selectors(level: int) -> list[Selector]:
        return [selector(*SELECTED[level]) for _ in range(random.randint(1, 2))]

    def source() -> Ask:
        keys = random.sample(("p", "q"), choice((0, 1, 2, 2)))
        labels = {key: choice(VALUES) for key in keys}
        return role(choice(SOURCES), *rules(), labels=labels)

    def relabelled() -> Ask:
        value = choice((*VALUES, None))
        return relabel(choice(SOURCES), **{choice(("p", "q")): value})

    def aggregation() -> Ask:
        level = choice((1, 1, 2))
        labels = {"r": choice(VALUES)} if level == 1 else {}
        present = rules() if random.random() < 0.3 else []
        return role(choice(LEVELS[level]), *present, labels=labels, selectors=selectors(level))

    def other_selectors() -> Ask:
        level = choice((1, 2))
        rule_of = {"clusterRoleSelectors": selectors(level)}
        return edit(choice(LEVELS[level]), aggregationRule=rule_of)

    kinds: Kinds = (
        (4, source),
        (4, relabelled),
        (3, lambda: edit(choice(SOURCES), rules=rules() or None)),
        (2, lambda: delete(f"clusterroles/${choice(SOURCES)}")),
        (3, aggregation),
        (2, other_selectors),
        (2, lambda: edit(choice(aggregated), rules=rules())),
        (1, lambda: delete(f"clusterroles/${choice(aggregated)}")),
    )
    sources = (source() for _ in range(8))
    first: Move = (*sources, *(aggregation() for _ in range(4)))
    return [first, *((change,) for change in drawn(random, kinds, MOVES))]


WORKLOAD = Workload(
    "clusterrole-aggregation",
    "CRA-10 to CRA-56",
    moves,
    partial(with_looks, down=DOWN),
    seeds_in_tests=20,
)
