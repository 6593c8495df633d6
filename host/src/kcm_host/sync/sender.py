"""Where writes go: the seam at which another sender can plan or compare instead of sending."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError, Unreadable
from kcm_host.api.writes import Receipt, Write
from kcm_host.wire.answers import AnswerDecoder
from kcm_host.wire.client import JSON, METADATA_ONLY, Client
from kcm_host.wire.paths import collection, item
from kcm_host.work.limiter import Turns

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
    resource_version: str = ""
    uid: str = ""


class _Answer(msgspec.Struct):
    metadata: _Meta = _Meta()


_answer = AnswerDecoder(_Answer)


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
    ) -> None:
        self._client = client
        self._agent = agent
        self._turns = Turns(qps, burst, clock)

    async def send(self, write: Write) -> Receipt:
        """See `Sender.send`."""
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
        body = await self._client.call(
            METHODS[write.verb],
            _path(write),
            verb=write.verb,
            agent=self._agent,
            query=write.query,
            body=write.body or None,
            content_type=write.content_type,
            # An answer that is not read beyond its version: the metadata alone costs a fifth less.
            accept=JSON if write.whole else METADATA_ONLY,
        )
        kept = body if write.whole else b""
        try:
            meta = _answer(body, write.verb).metadata
        except Unreadable:
            return Receipt(attempts=attempt, body=kept)
        return Receipt(meta.resource_version, meta.uid, attempt, kept)


def _path(write: Write) -> str:
    if write.verb == "create":
        return collection(write.kind, write.key.namespace)
    return item(write.kind, write.key, write.subresource)
