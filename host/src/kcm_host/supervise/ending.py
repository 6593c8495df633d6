"""Runs the event loop, and ends the process whatever plugins leave in it."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)

#: What is left gets so long to end.
END_SECONDS = 1.0


def run_to_end(main: Coroutine[Any, Any, int]) -> int:
    """
    Return the exit code that `main` gives.

    Ends the process with it, instead of returning, when a task ignores its cancellation or a
    thread goes on: the loop and the interpreter would wait for them without end.
    """
    with asyncio.Runner() as runner:
        code = runner.run(main)
        tasks = runner.run(_end_tasks())
        threads = [one.name for one in threading.enumerate() if _holds_process(one)]
        if tasks or threads:
            pairs = {"tasks": ", ".join(tasks), "threads": ", ".join(threads)}
            log.warning("ended with work left", extra={"kv": pairs})
            _end_now(code)
    return code


async def _end_tasks() -> list[str]:
    """Cancel all other tasks, end the loop's threads, and name the tasks that go on."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    threads = asyncio.create_task(asyncio.get_running_loop().shutdown_default_executor())
    _, left = await asyncio.wait({*rest, threads}, timeout=END_SECONDS)
    return sorted(task.get_name() for task in left - {threads})


def _holds_process(thread: threading.Thread) -> bool:
    return not thread.daemon and thread is not threading.main_thread()


def _end_now(code: int) -> None:
    """End the process without waiting for anything in it; what was said is said."""
    logging.shutdown()
    # Either is None where the process was started without it.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)
