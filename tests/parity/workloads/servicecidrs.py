"""Random ranges that overlap, Services and addresses in them, and ranges that are deleted."""

from collections.abc import Callable
from functools import partial
from random import Random

from parity.scenarios.ranges import (
    FINALIZER,
    GRACE,
    LARGE,
    LARGE_V6,
    LOWER,
    OTHER,
    READY,
    SMALL,
    TERMINATING,
    UPPER,
    V4,
    V6,
    address,
    cidr,
    edit,
    finalize,
    gone,
    no_address,
    no_service,
    say,
    service,
    touch,
)
from parity.steps import Ask
from parity.workload import Move, Moves, Workload, drawn, with_looks

NAMES = "abcde"
SMALL_V6 = "fd00:$::/120"
RANGES = (
    *((V4,), (V4,), (LOWER,), (UPPER,), (SMALL,), (LARGE,), ("10.$.0.6/31",)),
    *((V6,), (LARGE_V6,), (V4, V6), (LARGE, LARGE_V6), (SMALL, SMALL_V6), (LOWER, V6)),
)
SERVICES = range(6)
#: In one or several ranges, and at their ends.
LASTS = (1, 7, 7, 63, 64, 127, 128, 200, 200, 254, 255)
FOREIGN = ("10.$.0.9", "10.$.0.129")
#: Managed ones that no Service has: the server removes them after a minute.
LONELY = ("10.$.0.0", "10.$.0.10", "10.$.0.127", "fd00:$::", "fd00:$::5", "fd00:$::fff0")
STATES = (TERMINATING, READY, ("True", "", "other"), ("Unknown", "Other", ""))
# What happens during which move. The waits of ten seconds make it long enough as it is.
DOWN, LAST = 4, 9


class _Ranges:
    """Draws changes of ranges and addresses."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._choice = random.choice

    def new(self) -> Ask:
        held = self._choice(((), (), (), (OTHER,), (FINALIZER,)))
        return cidr(self._choice(NAMES), *self._choice(RANGES), finalizers=held)

    def deleted(self) -> Ask:
        return gone(self._choice(NAMES))

    def wider(self) -> Ask:
        return edit(self._choice(NAMES), spec={"cidrs": [*self._choice(((V4, V6), (SMALL, V6)))]})

    def told(self) -> Ask:
        return say(f"${self._choice(NAMES)}", *self._choice(STATES))

    def finalized(self) -> Ask:
        return finalize(self._choice(NAMES), *self._choice(((), (OTHER,), (OTHER, FINALIZER))))

    def touched(self) -> Ask:
        return touch(self._choice(NAMES))

    def served(self) -> Ask:
        return service(f"v{self._choice(SERVICES)}", self._choice(LASTS))

    def unserved(self) -> Ask:
        return no_service(f"v{self._choice(SERVICES)}")

    def foreign(self) -> Ask:
        return address(self._choice(FOREIGN), manager="other.example")

    def lonely(self) -> Ask:
        return address(self._choice(LONELY), family=self._choice((None, None, "IPv6", "")))

    def no_address(self) -> Ask:
        return no_address(self._choice((*FOREIGN, *LONELY)))

    def draw(self, kinds: dict[Callable[[], Ask], int], count: int) -> Move:
        weighted = [(weight, make) for make, weight in kinds.items()]
        return tuple(drawn(self._random, weighted, count))


def moves(random: Random) -> Moves:
    """
    Return what happens: ranges, then what lies in them, and twice deletions and what follows.

    Once a range is being deleted, one thing happens at a time: what frees it and what keeps it
    would run against each other, as would two changes of one's finalizers. Ranges grow only
    while nobody is being deleted or the controllers are down, as the reference does not notice
    (the declared Difference servicecidrs c).
    """
    of = _Ranges(random)
    quiet = {of.wider: 2, of.told: 2, of.finalized: 2, of.touched: 1}
    within = {of.deleted: 3, of.served: 1, of.unserved: 2, of.new: 2, of.told: 1, of.finalized: 1}
    after = {of.unserved: 4, of.new: 3, of.no_address: 2, of.told: 1, of.finalized: 1}
    first = tuple(of.new() for _ in range(4))
    held = (*(of.served() for _ in range(3)), of.foreign())
    return [
        first,
        (*held, *of.draw(quiet, 1)),
        (of.deleted(),),
        of.draw(within, 1),
        of.draw(after | {of.wider: 3}, 1),
        of.draw(after, 1),
        of.draw({of.lonely: 2, of.served: 2}, 2),
        (of.deleted(),),
        of.draw(within, 1),
        of.draw(after, 1),
    ]


WORKLOAD = Workload(
    "servicecidrs",
    "SC-20 to SC-97",
    moves,
    partial(with_looks, down=DOWN, waits={DOWN: GRACE, LAST: GRACE}),
    seeds_in_tests=12,
    options={"also": ("ipaddresses",), "by_chance": ("servicecidrs c",)},
)
