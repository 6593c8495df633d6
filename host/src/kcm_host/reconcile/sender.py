"""Where writes go: the seam at which another sender can plan or compare instead of sending."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreadable
from kcm_host.api.writes import Receipt, Write
from kcm_host.client.errors import ResponseDecoder
from kcm_host.client.paths import collection, item
from kcm_host.client.rest import JSON, METADATA_ONLY, Client, Response
from kcm_host.workqueue.rate_limiter import WriteRateLimiter

log = logging.getLogger(__name__)

#: A pause at least as long as this is told; shorter ones are how busy servers work.
LONG_PAUSE_SECONDS = 10.0
#: How often one write is sent when the server says when to come back (IQ-111).
MOST_ATTEMPTS = 11

METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "get": "GET"}


class Sender(Protocol):
    """Takes a write and gives what became of it."""

    async def send(self, write: Write) -> Receipt:
        """Carry out one write; raises `ApiError` or `Unreachable`."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None

    @property
    def is_gone(self) -> bool:
        """
        Whether the server deletes an object that looks like this after a write.

        It answers with the object as it was, its old version included.
        """
        return not self.finalizers and not self.deletion_grace_period_seconds


class _Details(msgspec.Struct, frozen=True):
    uid: str = ""


class _Answer(msgspec.Struct):
    """The object after the write; after most deletions a Status, whose details have the uid."""

    metadata: _Meta = _Meta()
    details: _Details | None = None


_answer = ResponseDecoder(_Answer)


class LiveSender:
    """
    Sends writes to the API server, for one controller.

    Without `qps` there is no throttle of ours. When the server asks for patience, no write of
    this controller goes out until the time it named, 5 minutes at most; other controllers are not
    held up.
    """

    def __init__(
        self,
        client: Client,
        *,
        agent: str,
        qps: float | None = None,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        heard: Callable[[Write, HostError | None], None] = lambda _write, _error: None,
    ) -> None:
        self._client = client
        self._agent = agent
        self._heard = heard
        self._turns = WriteRateLimiter(qps, burst, clock)

    async def send(self, write: Write) -> Receipt:
        """See `Sender.send`."""
        try:
            receipt = await self._send_patiently(write)
        except HostError as error:
            self._heard(write, error)
            raise
        self._heard(write, None)
        return receipt

    async def _send_patiently(self, write: Write) -> Receipt:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            await self._turns.take()
            try:
                return await self._send(write, attempt)
            except ApiError as error:
                wait = error.retry_after_seconds
                asks = error.status == 429 or error.status >= 500
                if wait is None or not asks or attempt == MOST_ATTEMPTS:
                    raise
                self._pause(wait, error)
        raise AssertionError("the last attempt returns or raises")

    @property
    def pause_seconds(self) -> float:
        """How long no write goes out yet, because the server asked for it."""
        return self._turns.pause_seconds

    def _pause(self, seconds: float, error: ApiError) -> None:
        long = seconds >= LONG_PAUSE_SECONDS and self.pause_seconds < LONG_PAUSE_SECONDS
        pairs = {
            "controller": self._agent.rpartition(" ")[2],
            "seconds": f"{seconds:g}",
            "error": str(error),
        }
        level = logging.WARNING if long else logging.DEBUG
        log.log(level, "the server asks for a pause of all writes", extra={"kv": pairs})
        self._turns.pause(seconds)

    async def _send(self, write: Write, attempt: int) -> Receipt:
        answer = await self._client.request(
            METHODS[write.verb],
            _path(write),
            verb=write.verb,
            user_agent=self._agent,
            query=write.query,
            body=write.body or None,
            content_type=write.content_type,
            # An answer that is not read beyond its version: the metadata alone costs a fifth less.
            accept=JSON if write.whole else METADATA_ONLY,
        )
        return _receipt(write, answer, attempt)


def _receipt(write: Write, answer: Response, attempts: int) -> Receipt:
    body = answer.body if write.whole else b""
    try:
        found = _answer(answer.body, write.verb)
    except Unreadable:
        return Receipt(attempts=attempts, body=body, status=answer.status)
    meta = found.metadata
    deleted = meta.is_gone and (write.verb == "delete" or meta.deletion_timestamp is not None)
    return Receipt(
        meta.resource_version,
        meta.uid or (found.details.uid if found.details is not None else ""),
        attempts,
        body,
        answer.status,
        meta.name,
        deleted and write.verb != "get",
    )


def _path(write: Write) -> str:
    if write.verb == "create":
        return collection(write.kind, write.key.namespace)
    return item(write.kind, write.key, write.subresource)
