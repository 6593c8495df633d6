"""The first signal drains, the second ends the process; SIGUSR1 shows what everything waits for."""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, Self

from kcm_host.observe.watchdog import log_stacks

log = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SHOWING = signal.SIGUSR1
FAILED, AGAIN = 1, 130
#: What ending in good order may take beyond the drain itself.
GRACE = timedelta(seconds=5)
#: A loop that runs takes note of something new within this time.
HEARD_SECONDS = 1.0


class StopSignals:
    """
    Sets `stop` at the first SIGTERM, SIGINT or SIGHUP; the second ends the process with code 130.

    SIGUSR1 writes the stacks of all tasks and threads to the log. A SIGHUP that was ignored when
    the process began, as by `nohup`, stays ignored.

    Heard by a thread of its own, from the file descriptor that Python writes signals to: it also
    works while a plugin blocks the loop in native code, where no Python handler would run. For
    that case it ends the process with code 1 when the drain has been due for 5 s.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drain: timedelta) -> None:
        self.stop = asyncio.Event()
        self._loop = loop
        self._limit_seconds = (drain + GRACE).total_seconds()
        self._before: dict[int, Any] = {}
        self._descriptor_before = -1
        self._ear, self._mouth = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="kcm-host-signals", daemon=True)

    def __enter__(self) -> Self:
        self._mouth.setblocking(False)
        self._thread.start()
        self._descriptor_before = signal.set_wakeup_fd(self._mouth.fileno())
        for number in (*STOPPING, SHOWING):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, _leave_it)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor_before)
        self._mouth.close()
        self._thread.join()
        self._ear.close()

    def _listen(self) -> None:
        received = False
        due = 0.0
        try:
            while numbers := self._ear.recv(16):
                if SHOWING in numbers:
                    log_stacks(self._loop)
                for _ in filter(STOPPING.__contains__, numbers):
                    if received:
                        os._exit(AGAIN)
                    received = True
                    due = time.monotonic() + self._limit_seconds
                    self._loop.call_soon_threadsafe(self.stop.set)
                if received:
                    self._ear.settimeout(max(due - time.monotonic(), 0.001))
        except TimeoutError:
            log.error("stop overran", extra={"kv": {"reason": self._reason()}})  # noqa: TRY400 - there is no stack to show
            os._exit(FAILED)

    def _reason(self) -> str:
        heard = threading.Event()
        self._loop.call_soon_threadsafe(heard.set)
        if heard.wait(HEARD_SECONDS):
            return "something is awaited without end, the event loop itself runs"
        return "the event loop is blocked"


def _leave_it(number: int, frame: FrameType | None) -> None:
    """Do nothing: that a handler is there makes Python write the signal to our thread."""
