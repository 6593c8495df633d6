"""The tasks of one running controller."""

import asyncio
from collections.abc import Collection
from typing import Any

from kcm_host.reconcile.time_limit import Running
from kcm_host.reconcile.worker_group import WorkerGroup
from kcm_host.supervise.start import Start
from kcm_host.supervise.timers import run_timer


class Crew:
    """
    Workers, and beside them timers, watches that come and go, and the sending of Events.

    They begin with it and end with `drain` or `cancel`.
    """

    def __init__(self, start: Start, *, workers: int, stuck: set[Running]) -> None:
        bench = start.bench()
        name = start.name
        self._failure = start.failure
        self._workers = WorkerGroup(bench, count=workers, stuck=stuck)
        asking = [run_timer(timer, start.functions) for timer in start.timers]
        asking += [start.sweep.run(), start.prove_identity()]
        if start.more is not None:
            asking.append(start.more.run())
        self._asking = [asyncio.create_task(one, name=f"{name} asking") for one in asking]
        self._telling: list[asyncio.Task[None]] = []
        if bench.events is not None:
            self._telling.append(asyncio.create_task(bench.events.run(), name=f"{name} events"))

    async def broken(self) -> None:
        """Raise what breaks this start; does not return before."""
        ends = {self._failure, self._workers.failure, *self._asking, *self._telling}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_EXCEPTION)
        for end in done:
            if not end.cancelled():
                end.result()

    async def drain(self) -> None:
        """Wait for running syncs that can end; the queue is closed. Events are sent until then."""
        await _ended(self._asking)
        await self._workers.drain()
        await _ended(self._telling)

    async def cancel(self) -> None:
        """End everything now; syncs that go on though they are cancelled are left behind."""
        await _ended([*self._asking, *self._telling])
        await self._workers.cancel()


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
