"""Bodies of responses, read up to a bound and decoded, and the errors that they stand for."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import aiohttp
import msgspec

from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreadable
from kcm_host.client.auth.errors import without_secrets
from kcm_host.client.decoding import REFUSALS

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


class ResponseDecoder(Generic[M]):
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


#: A server, or a proxy before it, may ask for this much patience and no more.
LONGEST_RETRY_AFTER = 300.0
TOO_LARGE = "ResourceVersionTooLarge"
TOO_LARGE_TEXT = "Too large resource version"


class StatusCause(msgspec.Struct):
    """One of several reasons behind an error."""

    reason: str = ""


class StatusDetails(msgspec.Struct, rename="camel"):
    """What the error is about."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The body of an error answer, or the object of an ERROR event."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class StatusFrame(msgspec.Struct):
    """An ERROR event of a watch."""

    object: Status


_status = ResponseDecoder(Status)
_frame = ResponseDecoder(StatusFrame)


def error_of_response(status: int, body: bytes, headers: Mapping[str, str], what: str) -> ApiError:
    """Give the error an HTTP answer stands for; `what` names the request in the message."""
    try:
        told = _status(body, what)
    except Unreadable:
        # A proxy's error page, not the API server's Status.
        told = Status(message=body[:200].decode("utf-8", "replace").strip())
    return _error(told, what, status=status, retry_after=headers.get("Retry-After", ""))


def error_of_event(line: bytes, what: str) -> ApiError:
    """Give the error that an ERROR event carries; raises `Unreadable` where it is none."""
    told = _frame(line, what).object
    return _error(told, what, status=told.code or 500, retry_after="")


def is_gone(error: ApiError) -> bool:
    """Whether the resourceVersion asked for is not kept any more."""
    return error.status == 410 or error.reason in ("Expired", "Gone")


def is_too_large(error: ApiError) -> bool:
    """Whether the server has not reached the resourceVersion asked for (IQ-21)."""
    return TOO_LARGE in error.causes or TOO_LARGE_TEXT in str(error)


def _error(told: Status, what: str, *, status: int, retry_after: str) -> ApiError:
    kind = {404: NotFound, 409: Conflict}.get(status, ApiError)
    details = told.details or StatusDetails()
    # The other form, a date, is for caches and not sent by API servers.
    told_when = retry_after.isascii() and retry_after.isdecimal()
    seconds = min(float(retry_after), LONGEST_RETRY_AFTER) if told_when else None
    return kind(
        without_secrets(f"{what}: {status} {told.reason}: {told.message}".replace(" : ", ": ")),
        status=status,
        reason=told.reason,
        causes=frozenset(cause.reason for cause in details.causes or ()),
        retry_after_seconds=seconds,
        server_message=told.message if told.kind == "Status" else "",
    )
