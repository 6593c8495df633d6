"""Admission, the controller and lost responses in random order: never more pods than `hard`."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time
from worlds.objects import BEGINNING, Refused
from worlds.running import World, running

from kcm_host.api import ApiError, Conflict, HostError, NotFound, Unreachable
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings

HARD = 6
STEPS = 120
#: Shorter than the settle time, as an operator has to choose that.
MOST_ON_THE_WAY_SECONDS = 6.0

Call = Callable[..., Awaitable[bytes]]
Send = Callable[[], Awaitable[bytes]]


class LossyCalls:
    """Calls of which some status writes lose their response, in every possible way."""

    def __init__(self, call: Call, chance: random.Random) -> None:
        self._call = call
        self._chance = chance
        self._late: list[asyncio.Task[None]] = []

    async def call(self, method: str, path: str, **request: Any) -> bytes:
        """See `Client.call`."""
        if method != "PUT" or self._chance.random() < 0.6:
            return await self._call(method, path, **request)
        raise await self._lost(lambda: self._call(method, path, **request))

    async def _lost(self, send: Send) -> HostError:
        """Return the error in place of a response, after the request has arrived or has not."""
        never = (Unreachable("refused", refused=True), Unreachable("cut before it arrived"))
        late, hanging = Unreachable("cut, and arrives later"), Unreachable("no answer")
        arrived = (
            Unreachable("cut after it arrived"),
            ApiError("etcd did not answer in time", status=500),
            Conflict("it had arrived at first", status=409),
        )
        error: HostError = self._chance.choice((*never, late, hanging, *arrived))
        if error is late:
            seconds = self._chance.random() * 20
            self._late.append(asyncio.create_task(_arrive(send, after_seconds=seconds)))
        elif error not in never:
            await _arrive(send)
        if error is hanging:
            # In one case longer than a sync, which is cancelled then.
            await asyncio.sleep(self._chance.choice((30, 70)))
        return error


async def _arrive(send: Send, *, after_seconds: float = 0.0) -> None:
    """Send a request to the server; ignore whether it was rejected."""
    await asyncio.sleep(after_seconds)
    with suppress(Conflict, NotFound):
        await send()


class Admission:
    """Creates and deletes pods of one namespace with a quota, as the API server does."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.on_the_way: list[asyncio.Task[None]] = []
        self.most = 0

    @property
    def pods(self) -> list[str]:
        """Return the names of the existing pods."""
        return [each["metadata"]["name"] for each in self.world[POD].all()]

    def used(self) -> int:
        """Return `used` of the quota."""
        quota = self.world[RESOURCE_QUOTA].get("q", "a")
        assert quota is not None
        return int(quota["status"]["used"]["pods"])

    def set_used(self, number: int) -> None:
        """Write `used` of the quota."""
        used = {"status": {"used": {"pods": str(number)}}}
        self.world[RESOURCE_QUOTA].patch("q", "a", used, "status")

    def admit(self) -> None:
        """Raise `used` and create a pod later, if the quota permits."""
        if self.used() >= HARD:
            return
        self.set_used(self.used() + 1)
        self.on_the_way.append(asyncio.create_task(self._arrive()))

    async def _arrive(self) -> None:
        await asyncio.sleep(self.chance.choice((0.0, 0.02, 0.3, 2.0, MOST_ON_THE_WAY_SECONDS)))
        if self.chance.random() < 0.15:
            return  # rejected after admission: stale usage is left behind
        self.world[POD].create({"metadata": {"generateName": "p-"}, "spec": {}}, "a")
        self.most = max(self.most, len(self.pods))

    def remove(self) -> None:
        """Delete one pod or several."""
        names = self.pods
        for name in self.chance.sample(names, min(len(names), self.chance.choice((1, 1, 2, 3)))):
            self.world[POD].delete(name, "a")

    def finish(self) -> None:
        """End and delete one pod, so that it no longer counts."""
        names = self.pods
        if names:
            name = self.chance.choice(names)
            self.world[POD].patch(name, "a", {"status": {"phase": "Succeeded"}}, "status")
            self.world[POD].delete(name, "a")

    def lower(self) -> None:
        """Lower `used` as a second controller does before it stops."""
        on_the_way = sum(not each.done() for each in self.on_the_way)
        self.set_used(min(self.used(), len(self.pods) + on_the_way))

    def cut(self) -> None:
        """End a watch, with or without a relist."""
        kind = self.chance.choice((POD, RESOURCE_QUOTA))
        self.world.server.cut(kind, expired=self.chance.random() < 0.5)

    def step(self) -> None:
        """Do one random step."""
        steps = (self.admit, self.remove, self.finish, self.lower, self.cut)
        (do,) = self.chance.choices(steps, (10, 5, 1, 1, 0.5))
        try:
            do()
        except Refused:
            return


def make_world(chance: random.Random) -> World:
    """Return a world with one quota for pods, and the controller."""
    loop = asyncio.get_running_loop()

    def make(settings: QuotaSettings) -> ResourceQuota:
        wall = lambda: BEGINNING.timestamp() + loop.time()  # noqa: E731 - one use
        return ResourceQuota(settings, clock=loop.time, wall=wall)

    world = World("resourcequota", chance, keys={RESOURCE_QUOTA: ""}, others=[POD], make=make)
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": str(HARD)}}}
    world[RESOURCE_QUOTA].create(quota, "a")
    return world


async def play(seed: int) -> None:
    """Run one random workload."""
    chance = random.Random(seed)
    async with running(make_world(random.Random(seed + 1))) as world:
        lossy = LossyCalls(world.server.call, random.Random(seed + 2))
        admission = Admission(world, chance)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.server, "call", lossy.call)
            for _ in range(STEPS):
                admission.step()
                await asyncio.sleep(chance.choice((0.0, 0.0, 0.01, 0.05, 0.3, 1.0, 4.0)))
                assert len(admission.pods) <= HARD
            await asyncio.gather(*admission.on_the_way)
        assert admission.most <= HARD
        # Back-off of the failures before included.
        await asyncio.sleep(400)
        assert admission.used() == len(admission.pods)


@given(seed=st.integers(0, 2**32))
def test_admission_admits_no_more_than_hard(seed: int) -> None:
    """
    Whatever happens to the controller's writes, `used` is never too low.

    F-5, RQ-B30 to B36: pods are created, deleted and end, requests leave stale usage, another
    controller lowers, watches fail; responses get lost before and after a write is stored, or it
    is stored late. After a quiet time, `used` is the number of pods.
    """
    logging.disable(logging.ERROR)
    try:
        run_in_virtual_time(play(seed))
    finally:
        logging.disable(logging.NOTSET)
