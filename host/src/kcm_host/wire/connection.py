"""Finds the API server and our credentials: a kubeconfig or the pod's service account."""

import importlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kcm_host.wire.address import is_tls, server_url
from kcm_host.wire.credentials import Access, Clock, Credentials, Fetch, authorization
from kcm_host.wire.exec_plugin import exec_plugin
from kcm_host.wire.kubeconfig import Chosen, choose
from kcm_host.wire.problem import ConnectionProblem
from kcm_host.wire.proxies import is_loopback, proxy_from_environment, usable_proxy
from kcm_host.wire.sources import Fixed, TokenFile, auth_provider, official_configuration
from kcm_host.wire.tls import SYSTEM_TRUST, ClientTls, KeyPair, Trust, private_folder

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Connection:
    """
    Where the API server is and who we are there.

    `base_url` has no slash at its end. `origin` and `authority` are for messages: where all
    this came from, and which certificates vouch for the server. `tls_server_name` is the name
    to check the server's certificate against, None for the host of the URL.
    """

    base_url: str
    credentials: Credentials
    origin: str
    authority: str = SYSTEM_TRUST
    proxy: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None


def connect(
    kubeconfig: str | None,
    *,
    environ: Mapping[str, str],
    clock: Clock = time.time,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """
    Give the connection that the first of these describes: the kubeconfig named here, those in
    $KUBECONFIG, the pod's service account, ~/.kube/config.

    Only reads files: exec plugins and auth providers are asked by the first
    `credentials.current()`, which therefore is the place where they fail. Raises
    ConnectionProblem (exit code 2); having no credentials is one, never anonymous access.
    """
    home = Path(environ.get("HOME") or "/")
    paths = _named(kubeconfig, home=home) or _listed(environ, home=home)
    if not paths and _is_pod(environ, service_account):
        connection = _from_service_account(environ, service_account, clock)
    else:
        connection = _from_kubeconfig(paths or _default(home), environ, clock)
    return connection


def _named(kubeconfig: str | None, *, home: Path) -> tuple[Path, ...]:
    return (_expanded(kubeconfig, home),) if kubeconfig else ()


def _listed(environ: Mapping[str, str], *, home: Path) -> tuple[Path, ...]:
    value = environ.get("KUBECONFIG", "")
    listed = [_expanded(entry, home) for entry in value.split(":") if entry]
    existing = tuple(path for path in listed if path.exists())
    if listed and not existing:
        raise ConnectionProblem(
            f"no file in $KUBECONFIG exists: '{value}'; correct or unset the variable"
        )
    return existing


def _default(home: Path) -> tuple[Path, ...]:
    path = home / ".kube" / "config"
    if path.exists():
        return (path,)
    raise ConnectionProblem(
        f"no way to an API server: no kubeconfig is named, $KUBECONFIG is not set, this is no pod "
        f"with a service account token, and '{path}' does not exist; name one with --kubeconfig"
    )


def _expanded(name: str, home: Path) -> Path:
    return home / name.removeprefix("~/") if name.startswith("~/") else Path(name)


def _is_pod(environ: Mapping[str, str], folder: Path) -> bool:
    variables = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return all(environ.get(name) for name in variables) and (folder / "token").exists()


def _from_service_account(environ: Mapping[str, str], folder: Path, clock: Clock) -> Connection:
    official = importlib.import_module("kubernetes.config.incluster_config")
    token, authority = folder / "token", folder / "ca.crt"
    configuration = official.Configuration()
    loader = official.InClusterConfigLoader(
        str(token), str(authority), try_refresh_token=False, environ=environ
    )
    try:
        loader.load_and_set(configuration)
        authorities = authority.read_text(encoding="utf-8")
    except (official.ConfigException, OSError, UnicodeDecodeError) as error:
        raise ConnectionProblem(
            f"service account in '{folder}' is not usable: {error}; mount a complete one, or name "
            f"a kubeconfig with --kubeconfig"
        ) from None
    place = f"certificate authority '{authority}'"
    source = TokenFile(token, "token file", ClientTls(Trust(authorities, place)), clock)
    base_url = server_url(configuration.host, place="the pod's environment")
    return Connection(
        base_url=base_url,
        credentials=Credentials(source.fetch, first=source.read(), clock=clock),
        origin="in-cluster service account",
        authority=place,
        proxy=proxy_from_environment(base_url, environ),
    )


def _from_kubeconfig(
    paths: tuple[Path, ...], environ: Mapping[str, str], clock: Clock
) -> Connection:
    chosen = choose(paths)
    base_url = server_url(chosen.cluster.server, place=chosen.cluster_place)
    with private_folder() as folder:
        configuration = _loaded(chosen, base_url, folder)
        trust = _trust(chosen, configuration)
        tls = ClientTls(trust, _pair(chosen, configuration)) if is_tls(base_url) else None
    header = configuration.api_key.get("BearerToken", "")
    fetch, first = _source(chosen, header, tls=tls, environ=environ, clock=clock)
    _warn(base_url, chosen)
    return Connection(
        base_url=base_url,
        credentials=Credentials(fetch, first=first, clock=clock),
        origin=chosen.origin,
        authority=trust.place,
        proxy=usable_proxy(chosen.cluster.proxy_url, place=f"proxy-url of {chosen.cluster_place}")
        if chosen.cluster.proxy_url
        else proxy_from_environment(base_url, environ),
        tls_server_name=chosen.cluster.tls_server_name or None,
    )


def _loaded(chosen: Chosen, base_url: str, folder: Path) -> Any:
    ours = ("exec", "auth-provider", "tokenFile")
    user = {key: value for key, value in chosen.user_raw.items() if key not in ours}
    try:
        return official_configuration(
            {**chosen.cluster_raw, "server": base_url}, user, folder=folder
        )
    except Exception as error:  # noqa: BLE001 - its messages may quote secrets, so none goes on
        raise ConnectionProblem(
            f"{chosen.user_place} cannot be loaded ({type(error).__name__}); correct its fields"
        ) from None


def _trust(chosen: Chosen, configuration: Any) -> Trust:
    insecure = chosen.cluster.insecure_skip_tls_verify
    if not configuration.ssl_ca_cert:
        return Trust(insecure=insecure)
    data = "-data" if chosen.cluster.certificate_authority_data else ""
    place = f"certificate-authority{data} of {chosen.cluster_place}"
    authorities = Path(configuration.ssl_ca_cert).read_text(encoding="utf-8", errors="replace")
    return Trust(authorities, place)


def _pair(chosen: Chosen, configuration: Any) -> KeyPair | None:
    if not configuration.cert_file:
        return None
    user = chosen.user
    return KeyPair(
        Path(configuration.cert_file),
        Path(configuration.key_file),
        chosen.user_place,
        lasting=not user.client_certificate_data and not user.client_key_data,
    )


def _source(
    chosen: Chosen,
    header: str,
    *,
    tls: ClientTls | None,
    environ: Mapping[str, str],
    clock: Clock,
) -> tuple[Fetch, Access | None]:
    user, place = chosen.user, chosen.user_place
    if user.auth_provider is not None:
        return auth_provider(chosen, tls=tls, clock=clock).fetch, None
    if user.token_file:
        source = TokenFile(Path(chosen.user_raw["tokenFile"]), f"tokenFile of {place}", tls, clock)
        return source.fetch, source.read()
    if user.exec is not None and not user.token:
        return exec_plugin(chosen, environ=environ, tls=tls, clock=clock).fetch, None
    if not header and (tls is None or not tls.certified):
        raise ConnectionProblem(
            f"{place} holds no credentials that this server could see, and anonymous access is "
            f"not tried; give it a token, tokenFile, client certificate (https only), exec, "
            f"auth-provider, or username and password"
        )
    kind, _, secret = header.partition(" ")
    headers = authorization(kind, secret, place=f"token of {place}") if header else {}
    fixed = Fixed(headers, tls, clock)
    return fixed.fetch, fixed.read()


def _warn(base_url: str, chosen: Chosen) -> None:
    if not is_tls(base_url) and not is_loopback(urlsplit(base_url).hostname or ""):
        logger.warning(
            "credentials travel unencrypted", extra={"server": base_url, "origin": chosen.origin}
        )
    if chosen.cluster.insecure_skip_tls_verify:
        logger.warning(
            "the server's certificate is not checked",
            extra={"server": base_url, "origin": chosen.origin},
        )
