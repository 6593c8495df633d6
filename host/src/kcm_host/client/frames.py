"""The lines of a body that goes on."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from kcm_host.api.errors import ApiError

#: No object of an API server comes near: etcd refuses more than 1.5 MiB unless it is told
#: otherwise, of which JSON makes six times as much at worst.
MOST_BYTES = 64 * 1024 * 1024


async def lines(read: Callable[[], Awaitable[bytes]], what: str) -> AsyncIterator[bytes]:
    """
    Give the complete lines of the chunks that `read` gives, as they arrive; an empty one ends them.

    A connection that breaks or falls silent ends the lines like a normal close (IQ-117); an
    unfinished line is dropped, it comes again with the next watch. Raises `ApiError` when a line
    of the answer to `what` gets longer than `MOST_BYTES`.
    """
    begun = bytearray()
    while True:
        try:
            chunk = await read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return
        if not chunk:
            return
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            if begun:
                begun += line
                yield bytes(begun)
                begun.clear()
            else:
                yield line
        begun += rest
        if len(begun) > MOST_BYTES:
            raise ApiError(
                f"{what}: a line has no end after {MOST_BYTES >> 20} MiB, so no API server sent "
                "it; see what is between the host and the server",
                status=500,
            )
