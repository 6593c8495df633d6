"""When the garbage collector works: not while caches fill, afterwards seldom and completely."""

import asyncio
import gc
from collections.abc import Collection
from typing import NoReturn

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
