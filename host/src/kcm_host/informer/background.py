"""Keeps the host's own tasks running."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.informer.backoff import Backoff

log = logging.getLogger(__name__)


async def keep_running(
    name: str, begin: Callable[[], Awaitable[None]], *, may_end: bool = False
) -> None:
    """
    Run what `begin` gives until cancelled, and begin it again, after a wait, when it ends.

    Such an end is a mistake of the host's: it is logged with the name of the task, and what the
    task does goes on. `may_end`: returning is no mistake, and the end.
    """
    loop = asyncio.get_running_loop()
    backoff = Backoff(loop.time, random.random)
    while True:
        try:
            await begin()
            if may_end:
                return
            problem = "it returned"
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            problem = "it awaited a task that was cancelled"
        except PLUGIN_FAILURES as error:
            log.debug("background task raised", exc_info=error)
            problem = f"it raised {type(error).__name__}: {error}"
        seconds = backoff.seconds()
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
