"""Sees a blocked event loop and a suspended process, and tells whose code blocks it."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


TICK_SECONDS = 0.5
LIMIT_SECONDS = 1.0
FRAMES_SHOWN = 12
#: The loop's own frame around its wait for events: whoever stands there is idle, not stalled.
_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - no public name


class Watchdog:
    """
    A thread that looks at the event loop twice a second.

    A loop that waits for events is left asleep, which keeps an idle host idle (a probe would
    wake it). Otherwise it is asked for a sign of life; without one for `limit_seconds` the stall
    is logged, once, with the plugin and the stack that hold the loop, and its end with its
    length. A stall shorter than the limit and half a second may go unseen. `plugins` maps
    top-level packages to the names of their controllers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        plugins: Mapping[str, str],
        limit_seconds: float = LIMIT_SECONDS,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._loop = loop
        self._plugins = plugins
        self._limit = limit_seconds
        self._tick_seconds = tick_seconds
        # A lock, held until the stop: waiting for it costs half of what waiting for an Event does.
        self._running = threading.Lock()
        self._running.acquire()
        self._thread = threading.Thread(target=self._run, name="kcm-host-watchdog", daemon=True)
        self._loop_thread = 0
        self._asked: float | None = None
        self._answered: float | None = None
        self._reported = False
        self._plugin = ""

    def start(self) -> None:
        """Begin to watch. To be called on the loop's own thread."""
        self._loop_thread = threading.get_ident()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; does nothing when it never began."""
        if self._running.locked():
            self._running.release()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def plugin(self) -> str:
        """The controller whose code holds the loop; empty when none does or it is unknown."""
        return self._plugin if self.stalled_seconds() else ""

    def stalled_seconds(self) -> float:
        """For how long the loop has not answered; 0 below the limit."""
        asked = self._asked
        if asked is None or self._answered is not None:
            return 0.0
        seconds = time.monotonic() - asked
        return seconds if seconds >= self._limit else 0.0

    def _run(self) -> None:
        wait, due, used = self._tick_seconds, time.monotonic(), time.process_time()
        while not self._running.acquire(timeout=wait):
            now = time.monotonic()
            stood_still = now - due - wait
            if stood_still >= self._limit:
                self._suspended(stood_still, time.process_time() - used)
            due, used = now, time.process_time()
            try:
                wait = self._tick(now)
            except RuntimeError:
                if self._loop.is_closed():  # nothing is left to watch
                    return
                raise

    def _tick(self, now: float) -> float:
        """Look at the loop and give the seconds until the next look."""
        if self._answered is not None:
            self._over(self._answered)
        if self._asked is None:
            if not self._is_idle():
                self._ask(now)
            return self._tick_seconds
        overdue = self._asked + self._limit - now
        if overdue > 0:
            return min(overdue, self._tick_seconds)
        if not self._reported:
            self._report(now - self._asked)
        return self._tick_seconds

    def _is_idle(self) -> bool:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented, in spite of its name
        caller = frame.f_back if frame else None
        return caller is not None and caller.f_code is _RUN_ONCE

    def _ask(self, now: float) -> None:
        self._loop.call_soon_threadsafe(self._answer)
        self._asked = now

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _report(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - as above
        self._plugin = plugin_of(frame, self._plugins)
        self._reported = True
        pairs = {
            "controller": self._plugin or "unknown",
            "seconds": round(seconds, 1),
            "stack": stack_of(frame),
            "remedy": "let it await, or move the blocking call to a thread",
        }
        log.warning("event loop stalled", extra={"kv": pairs})

    def _over(self, answered: float) -> None:
        seconds = answered - (self._asked or answered)
        if self._reported:
            pairs = {"controller": self._plugin or "unknown", "seconds": round(seconds, 1)}
            log.warning("event loop runs again", extra={"kv": pairs})
        self._asked = self._answered = None
        self._reported = False
        self._plugin = ""

    def _suspended(self, seconds: float, cpu_seconds: float) -> None:
        """
        Report that not even this thread ran, and hold nobody to account for that time.

        Either the process was suspended, or native code kept the interpreter to itself.
        """
        if self._asked is not None and self._answered is None:
            self._asked += seconds
        busy = cpu_seconds > seconds / 2
        pairs = {
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "reason": "native code held the interpreter" if busy else "suspended or starved",
        }
        log.warning("process stood still", extra={"kv": pairs})


def plugin_of(frame: FrameType | None, plugins: Mapping[str, str]) -> str:
    """Give the controller whose code is innermost in a stack, or nothing."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in plugins:
            return plugins[package]
        frame = frame.f_back
    return ""


def place_of(frame: FrameType) -> str:
    """Give module, line and function of one frame."""
    module = frame.f_globals.get("__name__", "?")
    return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"


def stack_of(frame: FrameType | None) -> str:
    """Give the functions of a stack in one line, innermost first, down to the loop's own."""
    calls: list[str] = []
    while frame is not None and frame.f_code is not _RUN_ONCE and len(calls) < FRAMES_SHOWN:
        calls.append(place_of(frame))
        frame = frame.f_back
    return " < ".join(calls)


AWAITS_SHOWN = 30


def log_stacks(loop: asyncio.AbstractEventLoop) -> None:
    """
    Log one line for each task of the loop and each thread, with its stack, innermost first.

    May be called in any thread: it works while the loop is blocked.
    """
    tasks = sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name)
    for task in tasks:
        pairs = {"name": task.get_name(), "stack": " < ".join(reversed([*_awaits(task)]))}
        log.info("task", extra={"kv": pairs})
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():  # noqa: SLF001 - documented, in spite of its name
        pairs = {"name": names.get(number, str(number)), "stack": stack_of(frame)}
        log.info("thread", extra={"kv": pairs})


def _awaits(task: asyncio.Task[Any]) -> Iterator[str]:
    """Give where a task stands, outermost first, down to what it waits for."""
    awaited: Any = task.get_coro()
    for _ in range(AWAITS_SHOWN):
        frame = _part(awaited, "frame")
        if not isinstance(frame, FrameType):
            return
        yield place_of(frame)
        awaited = _part(awaited, "await") or _part(awaited, "yieldfrom")


def _part(awaited: object, name: str) -> object:
    """Give an attribute that coroutines, generators and async generators call differently."""
    parts = (getattr(awaited, f"{sort}_{name}", None) for sort in ("cr", "gi", "ag"))
    return next((part for part in parts if part is not None), None)
