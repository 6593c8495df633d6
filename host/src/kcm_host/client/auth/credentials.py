"""Credentials for requests: their sources, their expiry and their renewal."""

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

from kcm_host.client.auth.kubeconfig import ResolvedContext
from kcm_host.client.auth.tls import ClientTls
from kcm_host.client.errors import ConnectionProblem

log = logging.getLogger(__name__)


#: Wall time in Unix seconds: expiry times are wall times, and a sleeping machine ages tokens.
Clock = Callable[[], float]
#: Monotonic seconds, for delays: a change of the wall clock must not make one longer.
Monotonic = Callable[[], float]

#: Credentials are renewed at most this long before they expire.
RENEW_BEFORE = timedelta(seconds=60)
#: Delay after a failure of the source, or after a second refusal of its credentials.
RETRY_DELAY = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, eq=False)
class RequestCredentials:
    """
    The headers of a request, and the TLS context with the client certificate.

    `renew_at` and `expires_at` are Unix seconds, None for never: from `renew_at` on the source is
    called again, from `expires_at` on the server refuses these credentials. `reload_after` are
    seconds after which the source is called again because it may have changed, None for never.
    """

    headers: Mapping[str, str] = field(repr=False)
    ssl: SSLContext | None = None
    renew_at: float | None = None
    expires_at: float | None = None
    reload_after: float | None = None


Fetch = Callable[[], Awaitable[RequestCredentials]]


class Credentials:
    """
    The present credentials of a source, renewed in time and by one call at a time.

    A renewal that fails before the old credentials expire is logged once, and the old ones stay
    in use; otherwise callers get the ConnectionProblem. After a failure the source is not called
    for 10 s, nor after a 401 to credentials that it returned for a 401. `source` is its name in
    messages.
    """

    def __init__(
        self,
        fetch: Fetch,
        *,
        initial: RequestCredentials | None = None,
        clock: Clock = time.time,
        monotonic: Monotonic = time.monotonic,
        source: str = "the source of credentials",
    ) -> None:
        self.source = source
        self._fetch = fetch
        self._credentials = initial
        self._clock = clock
        self._monotonic = monotonic
        self._fetched_at = monotonic()
        self._refused = False
        self._problem: ConnectionProblem | None = None
        self._retry_at = 0.0
        self._renewal: asyncio.Task[RequestCredentials] | None = None

    async def current(self) -> RequestCredentials:
        """
        Return the credentials for a request that starts now, cached unless they are due.

        Raise the ConnectionProblem of the source when there are none.
        """
        if self._credentials is not None and not self._is_fetch_due(self._credentials):
            return self._credentials
        # Without this delay a refused token runs the exec plugin, or requests a token, for every
        # request of every controller (F-29).
        if self._monotonic() < self._retry_at:
            if self._problem is not None:
                return self._unexpired(self._problem)
            if self._refused and self._credentials is not None:
                return self._credentials
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew(), name="credentials renewal")
            self._renewal.add_done_callback(self._handle_result)
        renewal = self._renewal
        # Not a plain await: one cancelled request must not take the renewal from the others.
        await asyncio.wait((renewal,))
        return renewal.result()

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of `current`."""
        return (await self.current()).headers

    @property
    def is_fetching(self) -> bool:
        """True while a call of the source is in progress."""
        return self._renewal is not None

    def invalidate(self, refused: RequestCredentials | None = None) -> None:
        """
        Make the next `current` call the source, because the server has answered 401.

        Pass the credentials that were refused: a late 401 to old ones does not affect newer ones.
        """
        if refused is None or refused is self._credentials:
            self._refused = True

    def _is_fetch_due(self, credentials: RequestCredentials) -> bool:
        if self._refused or (
            credentials.renew_at is not None and self._clock() >= credentials.renew_at
        ):
            return True
        age = self._monotonic() - self._fetched_at
        return credentials.reload_after is not None and age >= credentials.reload_after

    def _unexpired(self, problem: ConnectionProblem) -> RequestCredentials:
        credentials = self._credentials
        expired = credentials is None or (
            credentials.expires_at is not None and self._clock() >= credentials.expires_at
        )
        if credentials is None or expired or self._refused:
            raise problem
        return credentials

    async def _renew(self) -> RequestCredentials:
        try:
            fetched = await self._fetch()
        except ConnectionProblem as problem:
            first_failure = self._problem is None
            self._problem = problem
            self._delay_retry()
            # Before the log line: without usable credentials the caller reports the problem itself.
            kept = self._unexpired(problem)
            if first_failure:
                log.warning("credentials not renewed", extra={"kv": {"problem": str(problem)}})
            return kept
        if self._refused:
            # If the server refuses these too, an immediate retry would not help.
            self._delay_retry()
        self._credentials = fetched
        self._fetched_at = self._monotonic()
        self._refused = False
        self._problem = None
        return fetched

    def _delay_retry(self) -> None:
        # Monotonic: a wall clock that is set back would make ten seconds an hour (F-21).
        self._retry_at = self._monotonic() + RETRY_DELAY.total_seconds()

    def _handle_result(self, renewal: asyncio.Task[RequestCredentials]) -> None:
        self._renewal = None
        if not renewal.cancelled():
            # Retrieved here, so that asyncio does not report an exception that no caller awaited.
            renewal.exception()


def renewal_time(*, now: float, expires_at: float) -> float:
    """
    Return when to renew: a minute before expiry, or after four fifths of a short lifetime.

    At least one second from now, so that a source of expired credentials is not called in a loop.
    """
    life = expires_at - now
    return now + max(1.0, life * 0.8, life - RENEW_BEFORE.total_seconds())


def authorization(kind: str, secret: str, *, place: str) -> Mapping[str, str]:
    """
    Return the Authorization header; `kind` is `Bearer` or `Basic`.

    Raise ConnectionProblem, without the secret, when a header cannot hold it.
    """
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConnectionProblem(
            f"{place} is empty or holds characters that no token has; store the bare token there"
        )
    return {"Authorization": f"{kind} {secret}"}


#: Token files are replaced, for example by the kubelet; the interval is that of client-go.
TOKEN_RELOAD_INTERVAL = timedelta(minutes=1)
#: Client certificate files change rarely; the interval is that of client-go.
CERTIFICATE_RELOAD_INTERVAL = timedelta(minutes=5)
PROVIDER_TIMEOUT = timedelta(seconds=60)
PROVIDERS = ("gcp", "oidc")


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials in the kubeconfig; only client certificate files may change."""

    headers: Mapping[str, str] = field(repr=False)
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Return the constant headers, and the context of the newest certificate files."""
        return self.read()

    def read(self) -> RequestCredentials:
        """Return the same without an event loop."""
        reloadable = self.tls is not None and self.tls.reloadable
        again = CERTIFICATE_RELOAD_INTERVAL.total_seconds() if reloadable else None
        return RequestCredentials(
            headers=self.headers, ssl=_tls_context(self.tls), reload_after=again
        )


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that is renewed by another program, such as the kubelet."""

    path: Path
    place: str
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Return the present token; raise ConnectionProblem when there is none."""
        return self.read()

    def read(self) -> RequestCredentials:
        """Return the same without an event loop."""
        try:
            token = self.path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            fact = error.strerror if isinstance(error, OSError) else "not text"
            raise ConnectionProblem(
                f"{self.place} '{self.path}' cannot be read: {fact}; restore the file"
            ) from None
        headers = authorization("Bearer", token, place=f"{self.place} '{self.path}'")
        again = TOKEN_RELOAD_INTERVAL.total_seconds()
        return RequestCredentials(headers=headers, ssl=_tls_context(self.tls), reload_after=again)


@dataclass(frozen=True, slots=True)
class AuthProvider:
    """
    The legacy providers `oidc` and `gcp`, implemented by the official loader.

    Called every minute: it sends no request until five minutes before the token expires. A
    renewed token is written to the kubeconfig, because the refresh token may be valid only once.
    """

    resolved: ResolvedContext
    config: dict[str, Any] = field(repr=False)
    tls: ClientTls | None

    async def fetch(self) -> RequestCredentials:
        """Return the provider's token; raise ConnectionProblem, after 60 s at the latest."""
        name = self._name
        try:
            async with asyncio.timeout(PROVIDER_TIMEOUT.total_seconds()):
                value = await asyncio.to_thread(self._token)
        except Exception as error:  # noqa: BLE001 - the official loader lets anything through
            # Its messages may quote the section with its secrets, so only the class is shown.
            raise self._problem(f"failed ({type(error).__name__})") from None
        if not value:
            raise self._problem("returned no token")
        kind, _, token = value.partition(" ")
        headers = authorization(kind, token, place=f"{name} token of {self.resolved.user_place}")
        again = TOKEN_RELOAD_INTERVAL.total_seconds()
        return RequestCredentials(headers=headers, ssl=_tls_context(self.tls), reload_after=again)

    @property
    def _name(self) -> str:
        assert self.resolved.user.auth_provider is not None
        return self.resolved.user.auth_provider.name

    def _token(self) -> str | None:
        # Imported here: it costs 70 ms and 10 MB, and these providers are rare.
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
            self.resolved.persist({key: self.config[key] for key in renewed if key in self.config})
        except OSError as error:
            log.warning(
                "renewed token not written to the kubeconfig",
                extra={"kv": {"origin": self.resolved.origin, "problem": error.strerror}},
            )

    def _problem(self, fact: str) -> ConnectionProblem:
        return ConnectionProblem(
            f"auth-provider '{self._name}' of {self.resolved.user_place} {fact}; log in anew with "
            f"the provider's own tool, or use an exec plugin"
        )


def auth_provider(resolved: ResolvedContext, *, tls: ClientTls | None) -> AuthProvider:
    """Return the source for the user's `auth-provider`; raise ConnectionProblem."""
    section = resolved.user.auth_provider
    assert section is not None
    if section.name not in PROVIDERS:
        raise ConnectionProblem(
            f"{resolved.user_place} uses auth-provider '{section.name}', which is not supported; "
            f"use an exec plugin"
        )
    config = dict(section.config)
    if section.name == "oidc" and "idp-certificate-authority-data" not in config:
        # Without a CA the official loader would not verify the server that gets the secrets.
        config.setdefault("idp-certificate-authority", _system_ca_file())
    return AuthProvider(resolved, config, tls)


def _tls_context(tls: ClientTls | None) -> ssl.SSLContext | None:
    return None if tls is None else tls.context()


def _system_ca_file() -> str:
    bundle: str | None = ssl.get_default_verify_paths().cafile
    return bundle or str(importlib.import_module("certifi").where())
