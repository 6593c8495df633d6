"""The process: its exit, its limit of open files, its garbage collection."""

import asyncio
import ctypes
import gc
import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NoReturn

log = logging.getLogger(__name__)


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
