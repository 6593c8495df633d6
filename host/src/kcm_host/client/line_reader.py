"""The lines of a response body that does not end: those of a watch."""

from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from kcm_host.api.errors import ApiError

#: Far more than any object of an API server: etcd refuses more than 1.5 MiB by default, and JSON
#: multiplies that by six at worst.
MAX_LINE_BYTES = 64 * 1024 * 1024


async def read_lines(read: Callable[[], Awaitable[bytes]], operation: str) -> AsyncIterator[bytes]:
    """
    Yield the complete lines of the chunks that `read` returns, until it returns an empty one.

    A connection that is cut or times out ends the lines like a normal end (IQ-117); an incomplete
    line is dropped, since the next watch sends it again. Raise `ApiError`, with the name of the
    `operation`, when a line is longer than `MAX_LINE_BYTES`.
    """
    incomplete = bytearray()
    while True:
        try:
            chunk = await read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return
        if not chunk:
            return
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            if incomplete:
                incomplete += line
                yield bytes(incomplete)
                incomplete.clear()
            else:
                yield line
        incomplete += rest
        if len(incomplete) > MAX_LINE_BYTES:
            raise ApiError(
                f"{operation}: a line has no end after {MAX_LINE_BYTES >> 20} MiB, so no API "
                "server sent it; check what is between the host and the server",
                status=500,
            )
