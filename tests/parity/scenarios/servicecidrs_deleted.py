"""The servicecidrs controller: deleted ranges, who keeps them, and what frees them."""

from typing import Any

from parity.scenario import Scenario
from parity.scenarios.ranges import (
    FINALIZER,
    GRACE,
    LARGE,
    LARGE_V6,
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
    relabel,
    say,
    service,
    touch,
)
from parity.steps import Look, Quiet

Steps = tuple[Any, ...]
FOREIGN = "other.example"


def story(
    name: str,
    rules: str,
    *there: Any,
    held: Steps = (),
    meanwhile: Steps = (),
    later: Steps = (),
    differs: tuple[str, ...] = (),
) -> Scenario:
    """
    Return a scenario in which `$a` is deleted.

    There are these ranges, then what is `held`; then comes the deletion, what happens meanwhile,
    the end of the grace, and what happens `later`.
    """
    steps = (
        *(held or ()),
        Quiet(),
        gone("a"),
        Look("deleted"),
        *meanwhile,
        Look("within the grace"),
        GRACE,
        Look("after the grace"),
        *later,
    )
    return Scenario(name, "servicecidrs", rules, steps, there, differs=differs)


A4, AV6, DUAL = cidr("a", V4), cidr("a", V6), cidr("a", V4, V6)
S7 = (service("s", 7),)

SCENARIOS = (
    story("a free one goes after ten seconds", "SC-T7, SC-T8, SC-62 to SC-64", A4),
    story(
        "an address keeps it",
        "SC-T9, SC-T10, SC-T11",
        A4,
        held=S7,
        meanwhile=(touch("a"),),
        later=(touch("a"), Look("touched"), no_service("s")),
    ),
    story(
        "the last of several addresses frees it",
        "SC-94, SC-25",
        A4,
        held=(service("s", 7), service("t", 8)),
        later=(no_service("s"), Look("one left"), no_service("t")),
    ),
    story(
        "freed within the grace it stays until that is over",
        "SC-63, SC-65",
        A4,
        held=S7,
        meanwhile=(no_service("s"),),
    ),
    story(
        "an address that comes within the grace keeps it",
        "SC-23, SC-65",
        A4,
        meanwhile=(address("10.$.0.9"),),
        later=(no_address("10.$.0.9"),),
    ),
    story("a new parent frees it", "SC-T12, SC-20", A4, held=S7, later=(cidr("b", LARGE),)),
    story("a new equal one frees it", "SC-41, SC-92, SC-20", A4, held=S7, later=(cidr("b", V4),)),
    story(
        "a new small one frees it when the address is in it",
        "SC-T14, SC-20, SC-96",
        A4,
        held=(service("s", 200),),
        later=(cidr("b", SMALL), Look("not in it"), cidr("c", UPPER)),
    ),
    story("an equal range is a parent", "SC-T13, SC-92", A4, cidr("b", V4), held=S7),
    story("an address in a smaller range too", "SC-T14, SC-96", A4, cidr("b", SMALL), held=S7),
    story(
        "an address not in the smaller range",
        "SC-T15",
        A4,
        cidr("b", SMALL),
        held=(service("s", 200),),
        later=(no_service("s"),),
    ),
    story(
        "a parent for one family only",
        "SC-T16, SC-90",
        DUAL,
        cidr("b", LARGE),
        held=(address("fd00:$::5"),),
        later=(cidr("c", LARGE_V6),),
    ),
    story(
        "the address in the parent of one family",
        "SC-T17, SC-91",
        DUAL,
        cidr("b", LARGE),
        held=(service("s", 9),),
    ),
    story(
        "each family has a parent of its own",
        "SC-90, SC-92",
        DUAL,
        cidr("b", LARGE),
        cidr("c", LARGE_V6),
        held=(service("s", 9), address("fd00:$::5")),
    ),
    story(
        "first and last address keep nothing in IPv4",
        "SC-T18, SC-43",
        A4,
        held=(address("10.$.0.0"), address("10.$.0.255")),
    ),
    story(
        "the last address keeps it in IPv6",
        "SC-T19, SC-43",
        AV6,
        held=(address("fd00:$::ffff"),),
        later=(no_address("fd00:$::ffff"),),
    ),
    story("the first address keeps nothing in IPv6", "SC-43", AV6, held=(address("fd00:$::"),)),
    story(
        "ranges without usable addresses",
        "SC-43",
        cidr("a", "10.$.0.6/31", "fd00:$::7/128"),
        held=(address("10.$.0.6"), address("10.$.0.7"), address("fd00:$::7")),
    ),
    story(
        "the one usable address of two",
        "SC-43",
        cidr("a", "fd00:$::6/127"),
        held=(address("fd00:$::6"), address("fd00:$::7")),
        later=(no_address("fd00:$::6"), Look("one left"), no_address("fd00:$::7")),
    ),
    story(
        "an address of somebody else keeps nothing",
        "SC-T20, SC-26, SC-96",
        A4,
        held=(address("10.$.0.7", manager=FOREIGN), address("10.$.0.8", manager="")),
        later=(no_address("10.$.0.7"),),
    ),
    story(
        "an address without a family keeps nothing",
        "SC-93, SC-96",
        A4,
        held=(address("10.$.0.7", family=""),),
    ),
    story(
        "an address of a false family keeps nothing",
        "SC-93",
        A4,
        held=(address("10.$.0.7", family="IPv6"),),
    ),
    story(
        "an address of a false family keeps one of both",
        "SC-93, SC-94",
        DUAL,
        held=(address("10.$.0.7", family="IPv6"),),
        later=(no_address("10.$.0.7"),),
    ),
    story(
        "addresses of other ranges keep nothing",
        "SC-95, SC-40",
        cidr("a", SMALL),
        cidr("b", UPPER),
        held=(service("s", 200),),
    ),
    story(
        "finalizers of others are theirs to remove",
        "SC-T29, SC-72, SC-66",
        cidr("a", V4, finalizers=(OTHER,)),
        later=(touch("a"), Look("touched"), say("$a", *TERMINATING), Look("said"), finalize("a")),
    ),
    story(
        "with a finalizer of others an address is told of as well",
        "SC-61",
        cidr("a", V4, finalizers=(OTHER,)),
        later=(address("10.$.0.7"), Look("kept"), no_address("10.$.0.7"), touch("a")),
    ),
    story(
        "a kept one that is said to be ready",
        "SC-61, SC-80",
        A4,
        held=S7,
        meanwhile=(say("$a", *READY),),
        later=(say("$a", "Unknown", "Other", "other"),),
    ),
    story("a free one is not told of", "SC-63, SC-66", A4, meanwhile=(say("$a", *TERMINATING),)),
    story(
        "a kept one whose finalizer is taken away is gone",
        "SC-22, SC-66",
        A4,
        held=(address("10.$.0.7"),),
        meanwhile=(finalize("a"),),
        later=(cidr("a", V4, finalizers=(FINALIZER,)),),
    ),
    story("one that comes back is a new one", "SC-T27, SC-22", A4, later=(cidr("a", LARGE),)),
    story(
        "a parent that is being deleted counts, and is kept itself",
        "SC-44, SC-92",
        A4,
        cidr("b", LARGE),
        held=S7,
        meanwhile=(gone("b"),),
        later=(no_service("s"),),
    ),
    story(
        "equal ranges deleted one after the other",
        "SC-44, SC-92",
        A4,
        cidr("b", V4),
        meanwhile=(gone("b"), touch("a")),
    ),
    story(
        "a label taken from an address frees its range",
        "SC-24",
        A4,
        held=(address("10.$.0.7"),),
        later=(relabel("10.$.0.7", FOREIGN), Look("relabelled"), cidr("b", UPPER)),
        differs=("servicecidrs c",),
    ),
    story(
        "a range added to a living one frees another",
        "SC-21",
        AV6,
        cidr("b", "10.$.1.0/24"),
        held=(address("fd00:$::7"),),
        later=(
            edit("b", spec={"cidrs": ["10.$.1.0/24", LARGE_V6]}),
            Look("range added"),
            cidr("c", "fd00:$::/120"),
        ),
        differs=("servicecidrs c",),
    ),
)
