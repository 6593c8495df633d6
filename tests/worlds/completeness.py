"""
The property that wake-ups are complete (F-52).

Whatever happens in a world, and in whatever order its streams tell of it: once all is quiet, a
sync of every key writes nothing. A write would be one that a missed wake-up has left undone.
"""

import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time
from worlds.objects import Refused
from worlds.running import World, running

from kcm_host.api import Kind

#: Returns a world before anything happened in it; called on the event loop.
MakeWorld = Callable[[random.Random], World]
#: Does one random change to a world and returns what it did; empty, or an `IndexError` because it
#: chooses from nothing, or a refusal of the server: there was nothing to do.
Change = Callable[[World, random.Random], str]
#: So many changes are made at the least in one run of the tests.
LEAST_CHANGES = 2000
STEPS = 60
#: After so many steps one looks whether anything was missed.
LOOK_EVERY = 12
STORY_SHOWN = 40


def check_completeness(
    make_world: MakeWorld, changes: Mapping[Change, int], *, worlds: int = 60
) -> None:
    """
    Fail when a wake-up is missed in one of so many random worlds of 60 changes at the most.

    `changes` has the weight of each sort of change. A step is the seed of its change and 0 stands
    for no change, so that a failing story gets shorter when hypothesis tries smaller numbers.
    """
    made = 0
    profile = settings.default
    assert profile is not None
    is_random = not profile.derandomize
    if is_random:
        worlds = profile.max_examples

    @settings(max_examples=worlds)
    @given(steps=st.lists(st.integers(0, 2**32 - 1), min_size=STEPS, max_size=STEPS))
    def play(steps: list[int]) -> None:
        nonlocal made
        made += _play(make_world, changes, steps)

    play()
    assert is_random or made >= LEAST_CHANGES, f"only {made} changes: too many had nothing to do"


def end_watch(world: World, chance: random.Random, kind: Kind, *changes: Change) -> str:
    """End the watch of a kind, sometimes with one of these changes that only a new list shows."""
    expired = chance.random() < 0.5
    changed = ""
    if expired:
        with suppress(IndexError, Refused):
            changed = chance.choice(changes)(world, chance)
    world.server.cut(kind, expired=expired)
    return f"the watch of {kind.resource} ends, expired: {expired}; {changed}"


def _play(make_world: MakeWorld, changes: Mapping[Change, int], steps: list[int]) -> int:
    # Streams that end and keys that fail are a part of every world.
    logging.disable(logging.ERROR)
    try:
        return run_in_virtual_time(_played(make_world, changes, steps))
    finally:
        logging.disable(logging.NOTSET)


async def _played(make_world: MakeWorld, changes: Mapping[Change, int], steps: list[int]) -> int:
    story: list[str] = []
    async with running(make_world(random.Random(steps[-1]))) as world:
        for number, step in enumerate(steps, start=1):
            if step:
                chance = random.Random(step)
                (change,) = chance.choices(list(changes), list(changes.values()))
                with suppress(IndexError, Refused):
                    story.append(change(world, chance))
                await world.pause()
            if number % LOOK_EVERY == 0 or number == len(steps):
                await world.quiet()
                await _nothing_missed(world, story)
    return sum(map(bool, story))


async def _nothing_missed(world: World, story: list[str]) -> None:
    missed = await world.missed()
    told = "\n  ".join([each for each in story if each][-STORY_SHOWN:])
    assert not missed, f"missed wake-ups: {missed}\nafter:\n  {told}"
