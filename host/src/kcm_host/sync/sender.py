"""Where writes go: the seam at which another sender can plan or compare instead of sending."""

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
    this controller goes out until the time it named; other controllers are not held up.
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
                self._turns.pause(wait)
        raise AssertionError("the last attempt returns or raises")

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
