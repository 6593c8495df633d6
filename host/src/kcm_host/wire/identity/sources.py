"""Sources of credentials that need no program: fixed ones, token files and auth providers."""

import asyncio
import importlib
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from kcm_host.wire.identity.credentials import Access, authorization
from kcm_host.wire.identity.kubeconfig import Chosen
from kcm_host.wire.identity.problem import ConnectionProblem
from kcm_host.wire.identity.tls import ClientTls

#: Token files are replaced by others (the kubelet does); client-go looks as often.
READ_AGAIN = timedelta(minutes=1)
#: Client certificate files change rarely; client-go looks as often.
LOOK_AGAIN = timedelta(minutes=5)
PROVIDER_LIMIT = timedelta(seconds=60)
PROVIDERS = ("gcp", "oidc")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Credentials that stand in the kubeconfig; only client certificate files may change."""

    headers: Mapping[str, str] = field(repr=False)
    tls: ClientTls | None

    async def fetch(self) -> Access:
        """Give the same headers always, and the context of the newest certificate files."""
        return self.read()

    def read(self) -> Access:
        """Do the same without a loop."""
        lasting = self.tls is not None and self.tls.lasting
        again = LOOK_AGAIN.total_seconds() if lasting else None
        return Access(headers=self.headers, ssl=_context(self.tls), again_after=again)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that somebody else renews, as the kubelet does in a pod."""

    path: Path
    place: str
    tls: ClientTls | None

    async def fetch(self) -> Access:
        """Give the token that is in the file now; raises ConnectionProblem when there is none."""
        return self.read()

    def read(self) -> Access:
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
        return Access(headers=headers, ssl=_context(self.tls), again_after=again)


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

    async def fetch(self) -> Access:
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
        return Access(headers=headers, ssl=_context(self.tls), again_after=again)

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
            logger.warning(
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
