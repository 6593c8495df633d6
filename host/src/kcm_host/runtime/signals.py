"""Signals: the first one drains, the second one ends the process; SIGUSR1 logs all stacks."""

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

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STACKS_SIGNAL = signal.SIGUSR1
FAILED, INTERRUPTED = 1, 130
#: The time allowed for the exit after the drain.
GRACE = timedelta(seconds=5)
#: An event loop that is not blocked runs a callback within this time.
LOOP_SECONDS = 1.0


class StopSignals:
    """
    Sets `stop` at the first SIGTERM, SIGINT or SIGHUP; the second ends the process with code 130.

    SIGUSR1 writes the stacks of all tasks and threads to the log. A SIGHUP that was ignored when
    the process began, as by `nohup`, stays ignored.

    Signals are received by a thread of its own, from the file descriptor that Python writes them
    to: that also works while a plugin blocks the event loop in native code, where no Python handler
    runs. For that case it ends the process with code 1 when the drain is overdue by 5 s.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, drain: timedelta) -> None:
        self.stop = asyncio.Event()
        self._loop = loop
        self._limit_seconds = (drain + GRACE).total_seconds()
        self._before: dict[int, Any] = {}
        self._descriptor_before = -1
        self._receiver, self._sender = socket.socketpair()
        self._thread = threading.Thread(target=self._receive, name="kcm-host-signals", daemon=True)

    def __enter__(self) -> Self:
        self._sender.setblocking(False)
        self._thread.start()
        self._descriptor_before = signal.set_wakeup_fd(self._sender.fileno())
        for number in (*STOP_SIGNALS, STACKS_SIGNAL):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, _do_nothing)
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
        self._sender.close()
        self._thread.join()
        self._receiver.close()

    def _receive(self) -> None:
        received = False
        due = 0.0
        try:
            while numbers := self._receiver.recv(16):
                if STACKS_SIGNAL in numbers:
                    log_stacks(self._loop)
                for _ in filter(STOP_SIGNALS.__contains__, numbers):
                    if received:
                        os._exit(INTERRUPTED)
                    received = True
                    due = time.monotonic() + self._limit_seconds
                    self._loop.call_soon_threadsafe(self.stop.set)
                if received:
                    self._receiver.settimeout(max(due - time.monotonic(), 0.001))
        except TimeoutError:
            log.error("shutdown overdue", extra={"kv": {"reason": self._reason()}})  # noqa: TRY400 - there is no stack
            os._exit(FAILED)

    def _reason(self) -> str:
        responded = threading.Event()
        self._loop.call_soon_threadsafe(responded.set)
        if responded.wait(LOOP_SECONDS):
            return "a task waits forever; the event loop itself runs"
        return "the event loop is blocked"


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal to the descriptor only if it has a Python handler."""
