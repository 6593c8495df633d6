"""Response bodies, read up to a limit and decoded, and the errors of requests and connections."""

import errno
import re
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreachable, Unreadable
from kcm_host.client.http.dialer import DialError
from kcm_host.client.http.messages import Response
from kcm_host.observe.logging import printable

#: The user information of a URL. Bounded, so that the search stays linear in the text's length.
_USER_INFO = re.compile(r"://[^\s/@'\"<>]{1,1000}@")


def without_secrets(text: str) -> str:
    """Return the text with `://user:password@` of every URL in it replaced by `://***@`."""
    return _USER_INFO.sub("://***@", text)


class ConnectionProblem(Exception):
    """
    One line with fact, place and remedy; it never contains a token or a key.

    `exit_code` is 2 when the kubeconfig or the credentials are wrong, so that waiting cannot
    help, and 1 when the server cannot be reached, which may be temporary.
    """

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(printable(without_secrets(message)))
        self.exit_code = exit_code


M = TypeVar("M")
#: What the decoder raises. Users can store objects that the API server accepts and the decoder
#: does not: thousands of nested levels, halves of surrogate pairs, text that is not UTF-8. Only
#: that one object may be affected.
DECODE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

#: The size of a list depends on the cluster; any other response holds at most one object.
MAX_LIST_BYTES = 1 << 30
MAX_BODY_BYTES = 64 << 20
#: A server, or a proxy in front of it, may ask for this delay and no more.
#: One answer with 31536000 would silence a controller for a year (F-22).
MAX_RETRY_AFTER_SECONDS = 300.0

TOO_LARGE = "ResourceVersionTooLarge"
TOO_LARGE_TEXT = "Too large resource version"


def decode_body(decode: Callable[[bytes], M], body: bytes, operation: str) -> M:
    """Return the decoded body; raise `Unreadable`, with the name of the `operation`."""
    try:
        return decode(body)
    except DECODE_ERRORS as error:
        raise Unreadable(f"{operation}: undecodable response: {error}") from error


class ResponseDecoder(Generic[M]):
    """Decoder of response bodies into one model."""

    def __init__(self, model: type[M]) -> None:
        self._decode = msgspec.json.Decoder(model).decode

    def __call__(self, body: bytes, operation: str) -> M:
        """See `decode_body`."""
        return decode_body(self._decode, body, operation)


# A response of 306 kB was 300 MiB after decompression (F-25): neither requested nor accepted, the
# bound of a body is also the bound of the memory.
def check_encoding(response: Response, operation: str) -> None:
    """Raise `Unreadable` for a compressed response, which is never requested."""
    encoding = response.header(b"content-encoding")
    if encoding and encoding.lower() != "identity":
        raise Unreadable(
            f"{operation}: the response is encoded as {encoding[:40]!r}, which was not requested; "
            f"check whether a proxy before the server compresses"
        )


def too_long(operation: str, *, max_bytes: int) -> Unreadable:
    """Return the error of a response whose body is longer than `max_bytes`."""
    return Unreadable(
        f"{operation}: the response is longer than {max_bytes >> 20} MiB; it was not read"
    )


def unreachable(operation: str, error: OSError) -> Unreachable:
    """Return the error of a request that got no response because of `error`."""
    # Whether it was refused is kept apart from the text: only then is it certain that nothing has
    # been done, and a reflector need not list again (IQ-24).
    cause = error.cause if isinstance(error, DialError) else error
    refused = cause.errno == errno.ECONNREFUSED
    text = without_secrets(str(error)) or type(error).__name__
    return Unreachable(f"{operation}: no response: {text}", refused=refused)


class StatusCause(msgspec.Struct):
    """One cause of an error."""

    reason: str = ""


class StatusDetails(msgspec.Struct, rename="camel"):
    """The causes of an error."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct):
    """The body of an error response, or the object of an ERROR event."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ErrorEvent(msgspec.Struct):
    """An ERROR event of a watch."""

    object: Status


_decode_status = ResponseDecoder(Status)
_decode_error_event = ResponseDecoder(ErrorEvent)


def error_of_response(
    status_code: int, body: bytes, *, operation: str, retry_after: str = ""
) -> ApiError:
    """
    Return the error of an HTTP response; its text begins with the `operation`.

    `retry_after` is the header of this name, empty without.
    """
    try:
        status = _decode_status(body, operation)
    except Unreadable:
        # The error page of a proxy, not a Status of the API server.
        # Cut off: such a page may have any length, and the text goes into log lines.
        status = Status(message=body[:200].decode("utf-8", "replace").strip())
    return _error(status, operation, status_code=status_code, retry_after=retry_after)


def error_of_event(line: bytes, operation: str) -> ApiError:
    """Return the error of an ERROR event; raise `Unreadable` if it holds none."""
    status = _decode_error_event(line, operation).object
    return _error(status, operation, status_code=status.code or 500, retry_after="")


def is_gone(error: ApiError) -> bool:
    """Return whether the requested resourceVersion or continue token has expired."""
    return error.status == 410 or error.reason in ("Expired", "Gone")


def is_too_large(error: ApiError) -> bool:
    """Return whether the server has not reached the requested resourceVersion yet (IQ-21)."""
    # Older servers give the text without the cause.
    return TOO_LARGE in error.causes or TOO_LARGE_TEXT in str(error)


def is_busy(error: ApiError | Unreachable) -> bool:
    """Return whether the server is away or answers 429: a retry needs no new list."""
    if isinstance(error, Unreachable):
        return error.refused
    return error.status == 429


def _error(status: Status, operation: str, *, status_code: int, retry_after: str) -> ApiError:
    error_class = {404: NotFound, 409: Conflict}.get(status_code, ApiError)
    details = status.details or StatusDetails()
    text = f"{operation}: {status_code} {status.reason}: {status.message}".replace(" : ", ": ")
    # The other form, a date, is for caches and not sent by API servers.
    has_seconds = retry_after.isascii() and retry_after.isdecimal()
    seconds = min(float(retry_after), MAX_RETRY_AFTER_SECONDS) if has_seconds else None
    return error_class(
        # The text may quote a proxy, whose URL has its password; texts go on to logs, `/status` and
        # from plugins to Events in the namespaces of tenants (F-2).
        without_secrets(text),
        status=status_code,
        reason=status.reason,
        causes=frozenset(cause.reason for cause in details.causes or ()),
        retry_after_seconds=seconds,
        # Only a Status is the word of the API server. The page of a proxy may be about the host's
        # own network, which users of the cluster must not be shown (F-2).
        server_message=status.message if status.kind == "Status" else "",
    )
