"""The tasks of one running controller."""

import asyncio
from collections.abc import Collection
from typing import Any

from kcm_host.supervise.start import Start
from kcm_host.supervise.timers import run_timer
from kcm_host.sync.worker import work


class Crew:
    """
    Workers, and beside them timers, watches that come and go, and the sending of Events.

    They begin with it and end with `drain` or `cancel`.
    """

    def __init__(self, start: Start, *, workers: int) -> None:
        bench = start.bench()
        name = start.name
        self._failure = start.failure
        self._workers = [
            asyncio.create_task(work(bench), name=f"{name} worker {number}")
            for number in range(workers)
        ]
        asking = [run_timer(timer, start.functions) for timer in start.timers]
        if start.more is not None:
            asking.append(start.more.run())
        self._asking = [asyncio.create_task(one, name=f"{name} asking") for one in asking]
        self._telling: list[asyncio.Task[None]] = []
        if bench.events is not None:
            self._telling.append(asyncio.create_task(bench.events.run(), name=f"{name} events"))

    async def broken(self) -> None:
        """Raise what breaks this start; does not return before."""
        ends = {self._failure, *self._workers, *self._asking, *self._telling}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_EXCEPTION)
        for end in done:
            if not end.cancelled():
                end.result()

    async def drain(self) -> None:
        """Wait for the running syncs; the queue has to be closed. Events are sent until then."""
        await _ended(self._asking)
        if self._workers:
            await asyncio.wait(self._workers)
        await _ended(self._telling)

    async def cancel(self) -> None:
        """End everything now, running syncs too."""
        await _ended([*self._workers, *self._asking, *self._telling])


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
