"""The process: its signals, its exit, its limit of open files, its garbage collection."""

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

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
        # Python writes one byte for each signal here: two signals at once, while native code held
        # the interpreter, were one for its handlers.
        self._receiver, self._sender = socket.socketpair()
        self._thread = threading.Thread(target=self._receive, name="kcm-host-signals", daemon=True)

    def __enter__(self) -> Self:
        # As Python demands of a wake-up descriptor: a full one must not block the signal handler.
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


#: The time limit for tasks and threads that are left at the end.
EXIT_SECONDS = 1.0


def run_to_exit(main: Coroutine[Any, Any, int]) -> int:
    """
    Return the exit code that `main` returns.

    Exits the process with it, instead of returning, when a task ignores its cancellation or a
    thread goes on: the event loop and the interpreter would wait for them forever.
    """
    with asyncio.Runner() as runner:
        code = runner.run(main)
        # SIGTERM did not end a host with a sync in `asyncio.to_thread`, which the documentation
        # advises for blocking calls (F-12).
        tasks = runner.run(_cancel_tasks())
        threads = [one.name for one in threading.enumerate() if _holds_process(one)]
        if tasks or threads:
            pairs = {"tasks": ", ".join(tasks), "threads": ", ".join(threads)}
            log.warning("exit with work left", extra={"kv": pairs})
            _exit_now(code)
    return code


async def _cancel_tasks() -> list[str]:
    """Cancel all other tasks, end the loop's threads, and return the names of tasks that go on."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    threads = asyncio.create_task(asyncio.get_running_loop().shutdown_default_executor())
    _, left = await asyncio.wait({*rest, threads}, timeout=EXIT_SECONDS)
    return sorted(task.get_name() for task in left - {threads})


def _holds_process(thread: threading.Thread) -> bool:
    return not thread.daemon and thread is not threading.main_thread()


def _exit_now(code: int) -> None:
    """Exit without waiting for tasks or threads; logs and output are flushed."""
    logging.shutdown()
    # Either is None when the process was started with it closed.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


#: Enough for any host. Not more: programs that it starts, such as exec plugins, may try to close
#: every descriptor that the limit allows, and container runtimes allow a billion.
MAX_FILES = 65_536


def raise_file_limit() -> int:
    """
    Set the soft limit of open files to the hard limit, at most 65,536, and return it.

    The usual soft limit of 1024 is for programs that use `select`, which this one does not. A
    higher limit is kept.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        pairs = {"limit": soft, "error": str(error)}
        log.warning("limit of open files not raised", extra={"kv": pairs})
        return soft
    return wanted


#: After this time long-lived objects are excluded from garbage collection in any case.
FREEZE_AFTER_SECONDS = 60.0
#: Low enough that garbage of failed requests takes some hundred kilobytes, not ten megabytes.
THRESHOLDS = (10_000, 20, 20)
#: Closed connections are reference cycles in the oldest generation, each with a buffer of 256 KiB.
#: By thresholds alone, that generation is collected after millions of new objects, in hours; after
#: five minutes of many changes it has 2 MiB.
COLLECT_SECONDS = 60.0


async def collect_garbage(cache_synced: Collection[asyncio.Event]) -> NoReturn:
    """
    Freeze the objects that exist once all caches are synced, then collect every minute.

    The collector is off until then: while the caches are filled, a collection visits ever more
    objects and frees none. Afterwards a full one visits only newer objects.
    """
    waits = [asyncio.create_task(each.wait()) for each in cache_synced]
    _, pending = await asyncio.wait(waits, timeout=FREEZE_AFTER_SECONDS)
    for wait in pending:
        wait.cancel()
    # After the caches are filled: their objects live as long as the process, and each full
    # collection would visit them again.
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    trim = _malloc_trim()
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect()
        trim(0)


def _malloc_trim() -> Callable[[int], int]:
    """
    Return glibc's function that gives free memory back to the system; elsewhere one for nothing.

    After a burst of connections the heap has holes of 256 KiB each: without this call the process
    keeps them for ever, 12 MiB after half an hour of changes and faults.
    """
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return lambda _: 0
    return trim
