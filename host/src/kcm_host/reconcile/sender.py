"""The sender of writes, and what the server has refused it for lack of permissions."""

import logging
import re
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreachable, Unreadable
from kcm_host.api.writes import EVENT, Write, WriteResponse
from kcm_host.client.errors import ConnectionProblem, ResponseDecoder
from kcm_host.client.http.messages import Response
from kcm_host.client.rest import JSON, METADATA_ONLY, Client, collection, item
from kcm_host.workqueue.rate_limiter import WriteRateLimiter

log = logging.getLogger(__name__)

#: A pause this long is logged as a warning; shorter ones are normal for busy servers.
LONG_PAUSE_SECONDS = 10.0
#: The number of attempts of one write while the server answers with Retry-After (IQ-111).
MAX_ATTEMPTS = 11

METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "get": "GET"}


class Sender(Protocol):
    """Carries out writes."""

    async def send(self, write: Write) -> WriteResponse:
        """Carry out one write and return the response; raises `ApiError` or `Unreachable`."""


class _ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None

    @property
    def is_gone(self) -> bool:
        """
        Return whether the server deletes an object with this metadata after a write.

        Its response holds the object as it was, its old version included.
        """
        return not self.finalizers and not self.deletion_grace_period_seconds


class _Details(msgspec.Struct, frozen=True):
    uid: str = ""


class _ResponseBody(msgspec.Struct):
    """The object after the write; after most deletions a Status, whose details have the uid."""

    metadata: _ObjectMeta = _ObjectMeta()
    details: _Details | None = None


_decode = ResponseDecoder(_ResponseBody)


class LiveSender:
    """
    Sends writes to the API server, for one controller.

    Without `qps` there is no client-side rate limit. When the server sends Retry-After, no write of
    this controller is sent until then, 5 minutes at most; other controllers are not affected.
    """

    def __init__(
        self,
        client: Client,
        *,
        user_agent: str,
        qps: float | None = None,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_result: Callable[[Write, HostError | None], None] = lambda _write, _error: None,
    ) -> None:
        self._client = client
        self._user_agent = user_agent
        self._on_result = on_result
        self._rate_limiter = WriteRateLimiter(qps, burst, clock)

    async def send(self, write: Write) -> WriteResponse:
        """See `Sender.send`."""
        try:
            response = await self._send_with_retries(write)
        except HostError as error:
            self._on_result(write, error)
            raise
        self._on_result(write, None)
        return response

    async def _send_with_retries(self, write: Write) -> WriteResponse:
        # Not `retries.retry`: the wait is that of the rate limiter, which holds back the other
        # writes of this controller too.
        for attempt in range(1, MAX_ATTEMPTS + 1):
            await self._rate_limiter.wait()
            try:
                return await self._send(write, attempt)
            except ApiError as error:
                retry_after = error.retry_after_seconds
                is_retryable = error.status == 429 or error.status >= 500
                if retry_after is None or not is_retryable or attempt == MAX_ATTEMPTS:
                    raise
                self._pause(retry_after, error)
        raise AssertionError("the last attempt returns or raises")

    @property
    def pause_seconds(self) -> float:
        """Seconds until the next write may be sent, because of Retry-After; 0 without a pause."""
        return self._rate_limiter.pause_seconds

    def _pause(self, seconds: float, error: ApiError) -> None:
        is_long = seconds >= LONG_PAUSE_SECONDS and self.pause_seconds < LONG_PAUSE_SECONDS
        pairs = {
            "controller": self._user_agent.rpartition(" ")[2],
            "seconds": f"{seconds:g}",
            "error": str(error),
        }
        level = logging.WARNING if is_long else logging.DEBUG
        log.log(level, "writes paused by Retry-After", extra={"kv": pairs})
        self._rate_limiter.pause(seconds)

    async def _send(self, write: Write, attempt: int) -> WriteResponse:
        response = await self._client.request(
            METHODS[write.verb],
            _path(write),
            verb=write.verb,
            user_agent=self._user_agent,
            query=write.query,
            body=write.body,
            content_type=write.content_type,
            # Where only the version is needed, the metadata alone cost a fifth less.
            accept=JSON if write.full_object else METADATA_ONLY,
        )
        return _write_response(write, response, attempt)


def _write_response(write: Write, response: Response, attempts: int) -> WriteResponse:
    body = response.body if write.full_object else b""
    try:
        decoded = _decode(response.body, write.verb)
    except Unreadable:
        # The write is done, whatever its response looks like: an error would repeat it.
        return WriteResponse(attempts=attempts, body=body, status=response.status)
    meta = decoded.metadata
    deleted = meta.is_gone and (write.verb == "delete" or meta.deletion_timestamp is not None)
    return WriteResponse(
        resource_version=meta.resource_version,
        uid=meta.uid or (decoded.details.uid if decoded.details is not None else ""),
        attempts=attempts,
        body=body,
        status=response.status,
        name=meta.name,
        deleted=deleted and write.verb != "get",
    )


def _path(write: Write) -> str:
    if write.verb == "create":
        return collection(write.kind, write.key.namespace)
    return item(write.kind, write.key, write.subresource)


#: A shorter refusal may be temporary, such as roles that a new server still creates.
REPORT_AFTER_SECONDS = 30.0
#: Longer than any back-off: without another attempt for so long the request is not needed now.
EXPIRY_SECONDS = 1100.0
FORBIDDEN = 403

#: The text of every authorizer; the text of admission, such as a quota, is another one.
_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"'
)


class _Refusal(msgspec.Struct):
    since: float
    last: float
    remedy: str


class RefusedWrites:
    """
    The refused requests of one controller, by kind, verb and subresource.

    One success ends a refusal of the same kind, verb and subresource: with a permission in some
    namespaces only, some keys fail, but not the controller. Events are left out, because they are
    best effort.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[tuple[str, str, str], _Refusal] = {}
        self._credentials_problem = ""

    def record(self, write: Write, error: HostError | None = None) -> None:
        """Record the result of a request; `error` is None after a success."""
        if write.kind == EVENT:
            return
        request = (str(write.kind), write.verb, write.subresource)
        remedy = _remedy(error)
        if not remedy:
            if error is None:
                self._refused.pop(request, None)
            return
        now = self._clock()
        refusal = self._refused.setdefault(request, _Refusal(now, now, remedy))
        refusal.last, refusal.remedy = now, remedy

    def record_credentials_problem(self, problem: str) -> bool:
        """Record why the controller has no own credentials, "" when it has; return if changed."""
        is_changed, self._credentials_problem = problem != self._credentials_problem, problem
        return is_changed

    def problems(self) -> list[str]:
        """Return what has been refused for 30 s, with the permissions to grant."""
        now = self._clock()
        self._refused = {
            request: one
            for request, one in self._refused.items()
            if now - one.last < EXPIRY_SECONDS
        }
        lasting = [one for one in self._refused.values() if now - one.since >= REPORT_AFTER_SECONDS]
        remedies = dict.fromkeys(one.remedy for one in lasting)
        own = [self._credentials_problem] if self._credentials_problem else []
        return [*own, *remedies]


def _remedy(error: HostError | None) -> str:
    """Return the refused request and the rule to grant; empty when no permission is missing."""
    if isinstance(error, Unreachable) and isinstance(error.__cause__, ConnectionProblem):
        return f"it has no credentials: {error}"
    if not isinstance(error, ApiError) or error.status != FORBIDDEN:
        return ""
    denied = _DENIED.search(str(error))
    # A 403 of admission, such as an exceeded quota, is a matter of the object.
    if denied is None:
        return ""
    template = "verbs: ['{verb}'], resources: ['{resource}'], apiGroups: ['{group}']"
    rule = template.format(**denied.groupdict())
    return f"its requests are refused (403): grant {{{rule}}} to '{denied['user']}'"
