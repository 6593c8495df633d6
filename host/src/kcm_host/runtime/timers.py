"""Asks for keys because time has passed."""

import asyncio
import time

from kcm_host.api.records import Cause
from kcm_host.api.timers import Timer
from kcm_host.runtime.event_handlers import EventDispatcher


async def run_timer(timer: Timer, functions: EventDispatcher) -> None:
    """Call a timer each time its interval has passed, counted from now, until cancelled."""
    loop = asyncio.get_running_loop()
    every = timer.every.total_seconds()
    due = loop.time() + every
    while True:
        await asyncio.sleep(due - loop.time())
        fire(timer, functions)
        # What came due meanwhile, while something held the process up, has been made up for.
        missed = max(loop.time() - due, 0.0) // every
        due += every * (missed + 1)


def fire(timer: Timer, functions: EventDispatcher) -> None:
    """Queue what a timer asks for now."""
    functions.call(timer.keys, cause=_passed, culprit="a timer")


def _passed() -> Cause:
    return Cause("timer", time.monotonic())
