"""The process: its end, its limit of open files, its garbage collection."""

import asyncio
import gc
import logging
import os
import resource
import sys
import threading
from collections.abc import Collection, Coroutine
from typing import Any, NoReturn

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


#: Enough for any host. More is not asked for: programs that it starts, such as exec plugins, may
#: try to close every descriptor they could have, and container runtimes allow a billion.
MOST_FILES = 65_536


def raise_file_limit() -> int:
    """
    Set the soft limit of open files to the hard limit, at most 65,536, and return it.

    The usual soft limit of 1024 is for programs that use `select`, which this one does not. A limit
    that is higher already stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        pairs = {"limit": soft, "error": str(error)}
        log.warning("limit of open files not raised", extra={"kv": pairs})
        return soft
    return wanted


#: Objects that live as long as the host are kept out of garbage collection from then on.
FREEZE_AFTER_SECONDS = 60.0
#: Low enough that garbage of failed requests is some hundred kilobytes, not ten megabytes.
THRESHOLDS = (10_000, 20, 20)
#: Connections grow old before they end, each a circle with a buffer of a quarter of a megabyte. By
#: thresholds alone, old garbage is looked for after millions of new objects, which takes hours.
COLLECT_SECONDS = 300.0


async def collect_garbage(known: Collection[asyncio.Event]) -> NoReturn:
    """
    Take what is there once all of `known` are set out of garbage collection; then collect.

    The collector is off until then: while the caches fill, a collection visits ever more objects
    and frees none. Afterwards a complete one every five minutes visits what has come since.
    """
    waits = [asyncio.create_task(each.wait()) for each in known]
    _, pending = await asyncio.wait(waits, timeout=FREEZE_AFTER_SECONDS)
    for wait in pending:
        wait.cancel()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        gc.collect()
