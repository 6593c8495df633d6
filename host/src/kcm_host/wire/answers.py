"""The bodies of answers: read up to a bound, then decoded; one error for all that is unusable."""

from collections.abc import Callable
from typing import Generic, TypeVar

import aiohttp
import msgspec

from kcm_host.api.errors import Unreadable
from kcm_host.wire.shallow import REFUSALS

M = TypeVar("M")

#: Lists are as long as the cluster is large; everything else is one object or less.
LONGEST_LIST = 1 << 30
LONGEST_BODY = 64 << 20
#: As much of an error answer is read; a Status is shorter.
LONGEST_ERROR = 1 << 20


def decoded(decode: Callable[[bytes], M], body: bytes, what: str) -> M:
    """Return what `decode` makes of a body; raises `Unreadable`, where `what` names the request."""
    try:
        return decode(body)
    except REFUSALS as error:
        raise Unreadable(f"{what}: unreadable answer: {error}") from error


class AnswerDecoder(Generic[M]):
    """Decodes the bodies of answers into one model."""

    def __init__(self, model: type[M]) -> None:
        self._decode = msgspec.json.Decoder(model).decode

    def __call__(self, body: bytes, what: str) -> M:
        """See `decoded`."""
        return decoded(self._decode, body, what)


def refuse_encoded(response: aiohttp.ClientResponse, what: str) -> None:
    """Raise `Unreadable` for an answer that is compressed: that is never asked for."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        response.close()
        raise Unreadable(
            f"{what}: the answer is encoded as {encoding[:40]!r}, which was not asked for; see "
            f"whether a proxy before the server compresses"
        )


async def read_body(response: aiohttp.ClientResponse, what: str, *, most: int) -> bytes:
    """Return the whole body; raises `Unreadable` when it is longer than `most` bytes."""
    body, complete = await _read(response, most)
    if not complete:
        raise Unreadable(f"{what}: the answer is longer than {most >> 20} MiB; it was not read")
    return body


async def read_error(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of an error answer, or its beginning when it is too long."""
    body, _ = await _read(response, LONGEST_ERROR)
    return body


async def _read(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Return up to `most` bytes, and whether that is all; what is left is not waited for."""
    parts, size = [], 0
    while part := await response.content.readany():
        parts.append(part)
        size += len(part)
        if size > most:
            response.close()
            return b"".join(parts)[:most], False
    return b"".join(parts), True
