"""Retries: delays, attempts that are repeated, and tasks that are restarted when they end."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from kcm_host.api.errors import PLUGIN_FAILURES

#: The delays are those of a reflector of client-go, which spare a server that comes back to many
#: clients at once.
BASE_SECONDS = 0.8
MAX_SECONDS = 30.0
RESET_SECONDS = 120.0


class Backoff:
    """
    Exponential backoff: 0.8 s doubled up to 30 s, plus a random jitter of up to 100 % (IQ-2).

    The sequence restarts two minutes after its previous start, whether or not errors occurred
    meanwhile (IQ-3).
    """

    def __init__(self, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._next = BASE_SECONDS
        self._started = clock()

    def next_delay(self) -> float:
        """Return the next delay in seconds."""
        now = self._clock()
        if now - self._started > RESET_SECONDS:
            self._next, self._started = BASE_SECONDS, now
        base = self._next
        self._next = min(base * 2, MAX_SECONDS)
        return base * (1 + self._random())


log = logging.getLogger(__name__)

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    *,
    on: type[E],
    delays: Iterable[float],
    is_temporary: Callable[[E], bool] = lambda _error: True,
) -> T:
    """
    Return the result of `attempt`, which is repeated after an error of type `on`.

    Before each repetition it waits for the next of the `delays`, in seconds. The error of the last
    attempt is raised: when there is no further delay, or when the error is not temporary.
    """
    remaining = iter(delays)
    while True:
        try:
            return await attempt()
        except on as error:
            if not is_temporary(error) or (seconds := next(remaining, None)) is None:
                raise
        # Outside of the handler, so that the error and its frames are freed before the wait.
        await asyncio.sleep(seconds)


async def keep_running(
    name: str, run: Callable[[], Awaitable[None]], *, may_end: bool = False
) -> None:
    """
    Await `run()` until cancelled; when it ends, restart it after a delay.

    An end is a bug of the host: it is logged with the `name` of the task. With `may_end`, a
    return is expected and ends the supervision.
    """
    loop = asyncio.get_running_loop()
    backoff = Backoff(loop.time, random.random)
    while True:
        try:
            await run()
            if may_end:
                return
            problem = "it returned"
        except asyncio.CancelledError:
            # A `CancelledError` may also come out of an awaited task that somebody has cancelled;
            # taken for the stop, the task would be gone for ever (F-3).
            if _is_cancelled():
                raise
            problem = "it awaited a task that was cancelled"
        except PLUGIN_FAILURES as error:
            # Broader than `Exception`: `sys.exit` somewhere below must not end a task of the host
            # either.
            log.debug("exception in background task", exc_info=error)
            problem = f"it raised {type(error).__name__}: {error}"
        seconds = backoff.next_delay()
        pairs = {
            "task": name,
            "problem": problem,
            "retry_in": f"{seconds:.3g}s",
            "remedy": "report it to the authors of kcm-host",
        }
        log.error("background task ended", extra={"kv": pairs})
        await asyncio.sleep(seconds)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
