"""Steps that tests of the queue share."""

import asyncio
from contextlib import suppress

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause
from kcm_host.workqueue.queue import Item, WorkQueue

A, B, C = Key("a"), Key("b"), Key("c")


def why(version: str = "1", *, reason: str = "updated") -> Cause:
    """Return a cause that can be told from others by its version."""
    return Cause(reason=reason, received=0.0, kind="nodes", object="n1", resource_version=version)


def versions(item: Item) -> list[str]:
    """Return the versions of an item's causes, in their order."""
    return [cause.resource_version for cause in item.causes]


async def drain_keys(queue: WorkQueue, *, seconds: float) -> list[tuple[float, Key]]:
    """Take and finish all keys for so long; give each with the seconds after which it came."""
    loop = asyncio.get_running_loop()
    begun, taken = loop.time(), []
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                item = await queue.get()
                taken.append((round(loop.time() - begun, 9), item.key))
                queue.done(item.key)
    return taken


async def settle() -> None:
    """Return when every task that can has run; no time passes."""
    for _ in range(5):
        await asyncio.sleep(0)
