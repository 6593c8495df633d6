"""Live senders as tests make them, and the attempts their client makes."""

import asyncio
from collections.abc import Callable

from kcm_host.observe.states import RequestRecord
from kcm_host.reconcile.sender import LiveSender

MakeSender = Callable[..., LiveSender]


class Attempts:
    """Every attempt the client made, to be waited for."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self._more = asyncio.Event()

    def __call__(self, record: RequestRecord) -> None:
        self.records.append(record)
        self._more.set()

    async def first(self) -> RequestRecord:
        """Return the first attempt once it is over; fails after a minute."""
        async with asyncio.timeout(60):
            await self._more.wait()
        return self.records[0]
