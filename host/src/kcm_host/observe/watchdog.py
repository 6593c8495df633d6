"""The watchdog: detects a blocked event loop and a suspended process, and names the plugin."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


CHECK_SECONDS = 0.5
LIMIT_SECONDS = 1.0
MAX_FRAMES = 12
#: The frame of the loop around its wait for events: a loop in it is idle, not stalled.
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - no public name


class Watchdog:
    """
    A thread that checks the event loop twice a second.

    A loop that waits for events is not woken, so that an idle host stays idle. Otherwise a callback
    is scheduled on it; when that has not run for `limit_seconds`, the stall is logged, once, with
    the plugin and the stack that block the loop, and later its end with its length. A stall shorter
    than the limit plus half a second may not be detected. `plugins` maps top-level packages to the
    names of their controllers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        plugins: Mapping[str, str],
        limit_seconds: float = LIMIT_SECONDS,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._loop = loop
        self._plugins = plugins
        self._limit = limit_seconds
        self._check_seconds = check_seconds
        # A lock, held until the stop: to wait for it costs half as much as to wait for an Event.
        self._running = threading.Lock()
        self._running.acquire()
        self._thread = threading.Thread(target=self._run, name="kcm-host-watchdog", daemon=True)
        self._loop_thread = 0
        self._scheduled_at: float | None = None
        self._ran_at: float | None = None
        self._is_reported = False
        self._plugin = ""

    def start(self) -> None:
        """Start the thread. To be called in the thread of the loop."""
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it; does nothing when it was not started."""
        if self._running.locked():
            self._running.release()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def plugin(self) -> str:
        """The controller whose code blocks the loop; empty when none does or it is unknown."""
        return self._plugin if self.stalled_seconds() else ""

    def stalled_seconds(self) -> float:
        """Return for how long the loop has not answered; 0 below the limit."""
        scheduled_at = self._scheduled_at
        if scheduled_at is None or self._ran_at is not None:
            return 0.0
        seconds = time.monotonic() - scheduled_at
        return seconds if seconds >= self._limit else 0.0

    def _run(self) -> None:
        wait, due, used = self._check_seconds, time.monotonic(), time.process_time()
        while not self._running.acquire(timeout=wait):
            now = time.monotonic()
            suspended = now - due - wait
            if suspended >= self._limit:
                self._report_suspension(suspended, time.process_time() - used)
            due, used = now, time.process_time()
            try:
                wait = self._check(now)
            except RuntimeError:
                if self._loop.is_closed():  # nothing is left to check
                    return
                raise

    def _check(self, now: float) -> float:
        """Check the loop and return the seconds until the next check."""
        if self._ran_at is not None:
            self._report_end(self._ran_at)
        if self._scheduled_at is None:
            if not self._is_idle():
                self._schedule(now)
            return self._check_seconds
        overdue = self._scheduled_at + self._limit - now
        if overdue > 0:
            return min(overdue, self._check_seconds)
        if not self._is_reported:
            self._report(now - self._scheduled_at)
        return self._check_seconds

    def _is_idle(self) -> bool:
        # A look at the frame instead of a callback, which would wake an idle loop twice a second.
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented, although underscored
        caller = frame.f_back if frame else None
        return caller is not None and caller.f_code is _RUN_ONCE

    def _schedule(self, now: float) -> None:
        self._loop.call_soon_threadsafe(self._on_call)
        self._scheduled_at = now

    def _on_call(self) -> None:
        self._ran_at = time.monotonic()

    def _report(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - as above
        self._plugin = plugin_of(frame, self._plugins)
        self._is_reported = True
        pairs = {
            "controller": self._plugin or "unknown",
            "seconds": round(seconds, 1),
            "stack": stack_of(frame),
            "remedy": "let it await, or move the blocking call to a thread",
        }
        log.warning("event loop stalled", extra={"kv": pairs})

    def _report_end(self, ran_at: float) -> None:
        seconds = ran_at - (self._scheduled_at or ran_at)
        if self._is_reported:
            pairs = {"controller": self._plugin or "unknown", "seconds": round(seconds, 1)}
            log.warning("event loop stall ended", extra={"kv": pairs})
        self._scheduled_at = self._ran_at = None
        self._is_reported = False
        self._plugin = ""

    def _report_suspension(self, seconds: float, cpu_seconds: float) -> None:
        """
        Report that this thread did not run either, and do not count that time as a stall.

        Either the process was suspended, or native code held the interpreter.
        """
        if self._scheduled_at is not None and self._ran_at is None:
            # Otherwise each pause of a virtual machine would blame the plugin that ran last.
            self._scheduled_at += seconds
        busy = cpu_seconds > seconds / 2
        pairs = {
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "reason": "native code held the interpreter" if busy else "suspended or starved",
        }
        log.warning("process suspended", extra={"kv": pairs})


def plugin_of(frame: FrameType | None, plugins: Mapping[str, str]) -> str:
    """Return the controller whose code is innermost in a stack; empty when there is none."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in plugins:
            return plugins[package]
        frame = frame.f_back
    return ""


def place_of(frame: FrameType) -> str:
    """Return module, line and function of one frame."""
    module = frame.f_globals.get("__name__", "?")
    return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"


def stack_of(frame: FrameType | None) -> str:
    """Return the functions of a stack in one line, innermost first, up to the frame of the loop."""
    calls: list[str] = []
    while frame is not None and frame.f_code is not _RUN_ONCE and len(calls) < MAX_FRAMES:
        calls.append(place_of(frame))
        frame = frame.f_back
    return " < ".join(calls)


MAX_AWAITS = 30


def log_stacks(loop: asyncio.AbstractEventLoop) -> None:
    """
    Log one line for each task of the loop and each thread, with its stack, innermost first.

    May be called in any thread, also while the loop is blocked.
    """
    tasks = sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name)
    for task in tasks:
        pairs = {"name": task.get_name(), "stack": " < ".join(reversed([*_awaits(task)]))}
        log.info("task", extra={"kv": pairs})
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():  # noqa: SLF001 - documented, although underscored
        pairs = {"name": names.get(number, str(number)), "stack": stack_of(frame)}
        log.info("thread", extra={"kv": pairs})


def _awaits(task: asyncio.Task[Any]) -> Iterator[str]:
    """Return the places of a task's coroutines, outermost first, down to what it awaits."""
    required: Any = task.get_coro()
    for _ in range(MAX_AWAITS):
        frame = _attribute(required, "frame")
        if not isinstance(frame, FrameType):
            return
        yield place_of(frame)
        required = _attribute(required, "await") or _attribute(required, "yieldfrom")


def _attribute(required: object, name: str) -> object:
    """Return an attribute whose prefix differs for coroutines, generators and async generators."""
    parts = (getattr(required, f"{sort}_{name}", None) for sort in ("cr", "gi", "ag"))
    return next((part for part in parts if part is not None), None)
