"""The first signal drains, the second ends the process."""

import asyncio
import logging
import os
import signal
import threading
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, Self

log = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)
FAILED, AGAIN = 1, 130
#: What ending in good order may take beyond the drain itself.
GRACE = timedelta(seconds=5)


class StopSignals:
    """
    Sets `stop` at the first SIGTERM or SIGINT; the second ends the process with code 130.

    Plain signal handlers, not the loop's: they also work while a plugin blocks the loop. For
    that case a timer ends the process with code 1 when the drain has been due for 5 s.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drain: timedelta) -> None:
        self.stop = asyncio.Event()
        self._loop = loop
        self._received = False
        self._before: dict[int, Any] = {}
        self._last_resort = threading.Timer((drain + GRACE).total_seconds(), self._overrun)
        self._last_resort.daemon = True

    def __enter__(self) -> Self:
        for number in STOPPING:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._last_resort.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received:
            os._exit(AGAIN)
        self._received = True
        self._last_resort.start()
        self._loop.call_soon_threadsafe(self.stop.set)

    @staticmethod
    def _overrun() -> None:
        log.error("stop overran", extra={"kv": {"reason": "the event loop is blocked"}})
        os._exit(FAILED)
