"""Credentials for requests: where they come from, how long they hold, when they are read again."""

import asyncio
import importlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from ssl import SSLContext
from typing import Any

from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.auth.kubeconfig import Chosen
from kcm_host.client.auth.tls import ClientTls

log = logging.getLogger(__name__)


#: Wall time in Unix seconds: expiry times are wall times, and a sleeping machine ages tokens.
Clock = Callable[[], float]
#: Seconds that only grow, for waits: setting the clock must not make one longer.
Monotonic = Callable[[], float]

#: At most this long before its expiry a credential is fetched anew.
RENEW_BEFORE = timedelta(seconds=60)
#: A source is left alone this long when it failed, or when what it gave is refused as well.
RETRY_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, eq=False)
class RequestCredentials:
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


Fetch = Callable[[], Awaitable[RequestCredentials]]


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
        first: RequestCredentials | None = None,
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
        self._renewal: asyncio.Task[RequestCredentials] | None = None

    async def current(self) -> RequestCredentials:
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
            self._renewal.add_done_callback(self._handle_result)
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

    def invalidate(self, refused: RequestCredentials | None = None) -> None:
        """
        Have the next `current` ask the source anew, because the server answered 401.

        Pass the access that was refused: a late 401 to an old one leaves a newer one alone.
        """
        if refused is None or refused is self._held:
            self._refused = True

    def _due(self, held: RequestCredentials) -> bool:
        if self._refused or (held.renew_at is not None and self._clock() >= held.renew_at):
            return True
        age = self._monotonic() - self._held_since
        return held.again_after is not None and age >= held.again_after

    def _kept(self, problem: ConnectionProblem) -> RequestCredentials:
        held = self._held
        expired = held is None or (held.expires_at is not None and self._clock() >= held.expires_at)
        if held is None or expired or self._refused:
            raise problem
        return held

    async def _renew(self) -> RequestCredentials:
        try:
            fresh = await self._fetch()
        except ConnectionProblem as problem:
            first_failure = self._problem is None
            self._problem = problem
            self._rest()
            kept = self._kept(problem)
            if first_failure:
                log.warning("credentials not renewed", extra={"kv": {"problem": str(problem)}})
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

    def _handle_result(self, renewal: asyncio.Task[RequestCredentials]) -> None:
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


#: Token files are replaced by others (the kubelet does); client-go looks as often.
READ_AGAIN = timedelta(minutes=1)
#: Client certificate files change rarely; client-go looks as often.
LOOK_AGAIN = timedelta(minutes=5)
PROVIDER_LIMIT = timedelta(seconds=60)
PROVIDERS = ("gcp", "oidc")


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials that stand in the kubeconfig; only client certificate files may change."""

    headers: Mapping[str, str] = field(repr=False)
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Give the same headers always, and the context of the newest certificate files."""
        return self.read()

    def read(self) -> RequestCredentials:
        """Do the same without a loop."""
        lasting = self.tls is not None and self.tls.lasting
        again = LOOK_AGAIN.total_seconds() if lasting else None
        return RequestCredentials(headers=self.headers, ssl=_context(self.tls), again_after=again)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that somebody else renews, as the kubelet does in a pod."""

    path: Path
    place: str
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Give the token that is in the file now; raises ConnectionProblem when there is none."""
        return self.read()

    def read(self) -> RequestCredentials:
        """Do the same without a loop."""
        try:
            token = self.path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            fact = error.strerror if isinstance(error, OSError) else "not text"
            raise ConnectionProblem(
                f"{self.place} '{self.path}' cannot be read: {fact}; restore the file"
            ) from None
        headers = authorization("Bearer", token, place=f"{self.place} '{self.path}'")
        again = READ_AGAIN.total_seconds()
        return RequestCredentials(headers=headers, ssl=_context(self.tls), again_after=again)


@dataclass(frozen=True, slots=True)
class AuthProvider:
    """
    What the official loader does for the older providers `oidc` and `gcp`.

    Asked every minute: its answer is local until five minutes before the token expires. A token
    it renewed is written back to the kubeconfig, because the refresh token may be spent.
    """

    chosen: Chosen
    config: dict[str, Any] = field(repr=False)
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Give the provider's token; raises ConnectionProblem, after 60 s at the latest."""
        name = self._name
        try:
            async with asyncio.timeout(PROVIDER_LIMIT.total_seconds()):
                value = await asyncio.to_thread(self._token)
        except Exception as error:  # noqa: BLE001 - the official loader lets anything through
            # Its messages may quote the stanza with its secrets, so only the sort is shown.
            raise self._problem(f"failed ({type(error).__name__})") from None
        if not value:
            raise self._problem("gave no token")
        kind, _, token = value.partition(" ")
        headers = authorization(kind, token, place=f"{name} token of {self.chosen.user_place}")
        again = READ_AGAIN.total_seconds()
        return RequestCredentials(headers=headers, ssl=_context(self.tls), again_after=again)

    @property
    def _name(self) -> str:
        assert self.chosen.user.auth_provider is not None
        return self.chosen.user.auth_provider.name

    def _token(self) -> str | None:
        # Imported here: it costs 70 ms and 10 MB, and few still use these providers.
        official = importlib.import_module("kubernetes.config.kube_config")
        # No certificates here, so that the loader writes no key to a file.
        cluster = {"server": "https://unused.invalid"}
        user = {"auth-provider": {"name": self._name, "config": self.config}}
        kubeconfig = {
            "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
            "clusters": [{"name": "chosen", "cluster": cluster}],
            "users": [{"name": "chosen", "user": user}],
        }
        loader = official.KubeConfigLoader(
            kubeconfig, active_context="chosen", config_persister=self._persist
        )
        configuration = official.Configuration()
        loader.load_and_set(configuration)
        value: str | None = configuration.api_key.get("BearerToken")
        return value

    def _persist(self) -> None:
        renewed = ("id-token", "refresh-token", "access-token", "expiry")
        try:
            self.chosen.persist({key: self.config[key] for key in renewed if key in self.config})
        except OSError as error:
            log.warning(
                "renewed token not written to the kubeconfig",
                extra={"kv": {"origin": self.chosen.origin, "problem": error.strerror}},
            )

    def _problem(self, fact: str) -> ConnectionProblem:
        return ConnectionProblem(
            f"auth-provider '{self._name}' of {self.chosen.user_place} {fact}; log in anew with "
            f"the provider's own tool, or use an exec plugin"
        )


def auth_provider(chosen: Chosen, *, tls: ClientTls | None) -> AuthProvider:
    """Give the source for the chosen user's `auth-provider`; raises ConnectionProblem."""
    stanza = chosen.user.auth_provider
    assert stanza is not None
    if stanza.name not in PROVIDERS:
        raise ConnectionProblem(
            f"{chosen.user_place} uses auth-provider '{stanza.name}', which is not supported; use "
            f"an exec plugin"
        )
    config = dict(stanza.config)
    if stanza.name == "oidc" and "idp-certificate-authority-data" not in config:
        # Without an authority the official loader would not check whom it sends secrets to.
        config.setdefault("idp-certificate-authority", _system_bundle())
    return AuthProvider(chosen, config, tls)


def _context(tls: ClientTls | None) -> ssl.SSLContext | None:
    return None if tls is None else tls.context()


def _system_bundle() -> str:
    bundle: str | None = ssl.get_default_verify_paths().cafile
    return bundle or str(importlib.import_module("certifi").where())
