"""What all tasks and threads of the process are waiting for, as lines of the log."""

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from kcm_host.observe.watchdog import place_of, stack_of

log = logging.getLogger(__name__)

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
