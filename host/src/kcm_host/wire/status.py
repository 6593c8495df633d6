"""Error answers of the server, as errors of ours."""

from collections.abc import Mapping

import msgspec

from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreadable
from kcm_host.wire.answers import AnswerDecoder
from kcm_host.wire.identity.secrets import without_secrets

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


_status = AnswerDecoder(Status)
_frame = AnswerDecoder(StatusFrame)


def error_of_answer(status: int, body: bytes, headers: Mapping[str, str], what: str) -> ApiError:
    """Give the error an HTTP answer stands for; `what` names the request in the message."""
    try:
        told = _status(body, what)
    except Unreadable:
        # A proxy's error page, not the API server's Status.
        told = Status(message=body[:200].decode("utf-8", "replace").strip())
    return _error(told, what, status=status, retry_after=headers.get("Retry-After", ""))


def error_of_frame(line: bytes, what: str) -> ApiError:
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
