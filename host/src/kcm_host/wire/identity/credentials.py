"""What a request needs to say who we are, fetched anew before it expires."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ssl import SSLContext

from kcm_host.wire.identity.problem import ConnectionProblem

#: Wall time in Unix seconds: expiry times are wall times, and a sleeping machine ages tokens.
Clock = Callable[[], float]
#: Seconds that only grow, for waits: setting the clock must not make one longer.
Monotonic = Callable[[], float]

#: At most this long before its expiry a credential is fetched anew.
RENEW_BEFORE = timedelta(seconds=60)
#: A source is left alone this long when it failed, or when what it gave is refused as well.
RETRY_AFTER = timedelta(seconds=10)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """
    What one request takes along: its headers, and the TLS context that shows our certificate.

    Both times are Unix seconds, None for never: from `renew_at` on the source is asked again,
    from `expires_at` on the server will refuse this. `again_after` are seconds after which the
    source is asked again because it may have changed, None for never.
    """

    headers: Mapping[str, str] = field(repr=False)
    ssl: SSLContext | None = None
    renew_at: float | None = None
    expires_at: float | None = None
    again_after: float | None = None


Fetch = Callable[[], Awaitable[Access]]


class Credentials:
    """
    Hands out the current access; asks the source again in time and never twice at once.

    A renewal that fails while the old access still holds is logged once, and the old one stays
    in use; otherwise callers get the ConnectionProblem. A failed source rests for 10 s, and so
    does one whose answer to a 401 is refused as well. `source` names it in messages.
    """

    def __init__(
        self,
        fetch: Fetch,
        *,
        first: Access | None = None,
        clock: Clock = time.time,
        monotonic: Monotonic = time.monotonic,
        source: str = "the source of credentials",
    ) -> None:
        self.source = source
        self._fetch = fetch
        self._held = first
        self._clock = clock
        self._monotonic = monotonic
        self._held_since = monotonic()
        self._refused = False
        self._problem: ConnectionProblem | None = None
        self._rest_until = 0.0
        self._renewal: asyncio.Task[Access] | None = None

    async def current(self) -> Access:
        """
        Give the access for a request that starts now; cheap unless it must be fetched.

        Raises ConnectionProblem when there is none, with the reason its source gave.
        """
        if self._held is not None and not self._due(self._held):
            return self._held
        if self._monotonic() < self._rest_until:
            if self._problem is not None:
                return self._kept(self._problem)
            if self._refused and self._held is not None:
                return self._held
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew(), name="credentials renewal")
            self._renewal.add_done_callback(self._settle)
        renewal = self._renewal
        # Not a plain await: one cancelled request must not take the renewal from the others.
        await asyncio.wait((renewal,))
        return renewal.result()

    async def headers(self) -> Mapping[str, str]:
        """Give the headers of `current`."""
        return (await self.current()).headers

    @property
    def pending(self) -> bool:
        """Whether the source is being asked at this moment."""
        return self._renewal is not None

    def invalidate(self, refused: Access | None = None) -> None:
        """
        Have the next `current` ask the source anew, because the server answered 401.

        Pass the access that was refused: a late 401 to an old one leaves a newer one alone.
        """
        if refused is None or refused is self._held:
            self._refused = True

    def _due(self, held: Access) -> bool:
        if self._refused or (held.renew_at is not None and self._clock() >= held.renew_at):
            return True
        age = self._monotonic() - self._held_since
        return held.again_after is not None and age >= held.again_after

    def _kept(self, problem: ConnectionProblem) -> Access:
        held = self._held
        expired = held is None or (held.expires_at is not None and self._clock() >= held.expires_at)
        if held is None or expired or self._refused:
            raise problem
        return held

    async def _renew(self) -> Access:
        try:
            fresh = await self._fetch()
        except ConnectionProblem as problem:
            first_failure = self._problem is None
            self._problem = problem
            self._rest()
            kept = self._kept(problem)
            if first_failure:
                logger.warning("credentials not renewed", extra={"kv": {"problem": str(problem)}})
            return kept
        if self._refused:
            # Should the server refuse this one too, asking again at once would not help.
            self._rest()
        self._held = fresh
        self._held_since = self._monotonic()
        self._refused = False
        self._problem = None
        return fresh

    def _rest(self) -> None:
        self._rest_until = self._monotonic() + RETRY_AFTER.total_seconds()

    def _settle(self, renewal: asyncio.Task[Access]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            # Looked at here, so that a failure nobody waited for is not reported by asyncio.
            renewal.exception()


def renewal_time(*, now: float, expires_at: float) -> float:
    """
    When to fetch anew what expires then: a minute before, or after four fifths of a short life.

    Never at once, so that a source which keeps handing out old credentials is not hammered.
    """
    life = expires_at - now
    return now + max(1.0, life * 0.8, life - RENEW_BEFORE.total_seconds())


def authorization(kind: str, secret: str, *, place: str) -> Mapping[str, str]:
    """
    Give the header that carries a secret; `kind` is `Bearer` or `Basic`.

    Raises ConnectionProblem when it cannot stand in a header, without showing it.
    """
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConnectionProblem(
            f"{place} is empty or holds characters that no token has; store the bare token there"
        )
    return {"Authorization": f"{kind} {secret}"}
