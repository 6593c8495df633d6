"""Finds the API server and our credentials: a kubeconfig or the pod's service account."""

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kcm_host.client.auth.credentials import (
    Clock,
    Credentials,
    Fetch,
    Monotonic,
    RequestCredentials,
    StaticCredentials,
    TokenFile,
    auth_provider,
    authorization,
)
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.auth.exec_plugin import exec_plugin
from kcm_host.client.auth.kubeconfig import Chosen, User, choose, decoded
from kcm_host.client.auth.proxy_env import (
    Proxy,
    is_loopback,
    proxy_from_environment,
    usable_proxy,
)
from kcm_host.client.auth.server_url import is_tls, server_url
from kcm_host.client.auth.tls import SYSTEM_CA_BUNDLE, CABundle, ClientTls, KeyPair, private_folder

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """
    Where the API server is and who we are there.

    `base_url` has no slash at its end. `origin` and `authority` are for messages: where all
    this came from, and which certificates vouch for the server; `trust` holds those.
    `tls_server_name` is the name to check the server's certificate against, None for the host of
    the URL. `certificate` holds the client certificate where that alone says who we are. `warnings`
    are what an operator should know before the first request: `check` prints
    them, `run` logs them.
    """

    base_url: str
    credentials: Credentials
    origin: str
    authority: str = SYSTEM_CA_BUNDLE
    ca_bundle: CABundle = field(default=CABundle(), repr=False)
    proxy: Proxy | None = None
    tls_server_name: str | None = None
    certificate: ClientTls | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()


def connect(
    kubeconfig: str | None,
    *,
    environ: Mapping[str, str],
    clock: Clock = time.time,
    monotonic: Monotonic = time.monotonic,
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
        return _from_service_account(environ, service_account, monotonic)
    paths = paths or _default(home, environ, service_account)
    return _from_kubeconfig(paths, environ, clock, monotonic)


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


def _default(home: Path, environ: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    path = home / ".kube" / "config"
    if path.exists():
        return (path,)
    pod, remedy = "this is no pod", "name one with --kubeconfig"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        pod = f"this pod has no service account token in '{folder}'"
        remedy = "set automountServiceAccountToken: true for the pod, or " + remedy
    raise ConnectionProblem(
        f"no way to an API server: no kubeconfig is named, $KUBECONFIG is not set, {pod}, "
        f"and '{path}' does not exist; {remedy}"
    )


def _expanded(name: str, home: Path) -> Path:
    return home / name.removeprefix("~/") if name.startswith("~/") else Path(name)


def _is_pod(environ: Mapping[str, str], folder: Path) -> bool:
    variables = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return all(environ.get(name) for name in variables) and (folder / "token").exists()


def _from_service_account(
    environ: Mapping[str, str], folder: Path, monotonic: Monotonic
) -> Connection:
    token, authority = folder / "token", folder / "ca.crt"
    place = f"certificate authority '{authority}'"
    trust = CABundle(_text(authority, place=place), place)
    source = TokenFile(token, "token file", ClientTls(trust))
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    address = f"[{host}]" if ":" in host else host
    base_url = server_url(f"https://{address}:{port}", place="the pod's environment")
    return Connection(
        base_url=base_url,
        credentials=Credentials(source.fetch, first=source.read(), monotonic=monotonic),
        origin="in-cluster service account",
        authority=place,
        ca_bundle=trust,
        proxy=proxy_from_environment(base_url, environ),
    )


def _from_kubeconfig(
    paths: tuple[Path, ...], environ: Mapping[str, str], clock: Clock, monotonic: Monotonic
) -> Connection:
    chosen = choose(paths)
    cluster = chosen.cluster
    base_url = server_url(cluster.server, place=chosen.cluster_place)
    trust = _trust(chosen)
    tls = _tls(chosen, trust) if is_tls(base_url) else None
    fetch, first = _source(chosen, tls=tls, environ=environ, clock=clock)
    certificate = tls if first is not None and not first.headers else None
    return Connection(
        base_url=base_url,
        credentials=Credentials(
            fetch, first=first, clock=clock, monotonic=monotonic, source=_name(chosen)
        ),
        origin=chosen.origin,
        authority=trust.place,
        ca_bundle=trust,
        proxy=usable_proxy(cluster.proxy_url, place=f"proxy-url of {chosen.cluster_place}")
        if cluster.proxy_url
        else proxy_from_environment(base_url, environ),
        tls_server_name=cluster.tls_server_name or None,
        certificate=certificate,
        warnings=tuple(_warnings(base_url, chosen, certificate, clock())),
    )


def _trust(chosen: Chosen) -> CABundle:
    cluster = chosen.cluster
    insecure = cluster.insecure_skip_tls_verify
    if cluster.certificate_authority_data:
        place = f"certificate-authority-data of {chosen.cluster_place}"
        return CABundle(decoded(cluster.certificate_authority_data).decode(errors="replace"), place)
    if cluster.certificate_authority:
        place = f"certificate-authority of {chosen.cluster_place}"
        return CABundle(_text(Path(cluster.certificate_authority), place=place), place)
    return CABundle(insecure=insecure)


def _tls(chosen: Chosen, trust: CABundle) -> ClientTls:
    """Give the TLS side of a user; embedded keys are on disk only while OpenSSL reads them."""
    user = chosen.user
    data = (user.client_certificate_data, user.client_key_data)
    if not any(data):
        if not user.client_certificate:
            return ClientTls(trust)
        pair = (Path(user.client_certificate), Path(user.client_key))
        return ClientTls(trust, KeyPair(*pair, chosen.user_place, lasting=True))
    with private_folder() as folder:
        certificate = _file(folder / "certificate", data[0], user.client_certificate)
        key = _file(folder / "key", data[1], user.client_key)
        return ClientTls(trust, KeyPair(certificate, key, chosen.user_place, lasting=False))


def _file(path: Path, data: str, named: str) -> Path:
    if not data:
        return Path(named)
    path.write_bytes(decoded(data))
    return path


def _text(path: Path, *, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConnectionProblem(
            f"{place} cannot be read: {error.strerror}; restore the file, or name a kubeconfig "
            f"with --kubeconfig"
        ) from None


def _source(
    chosen: Chosen,
    *,
    tls: ClientTls | None,
    environ: Mapping[str, str],
    clock: Clock,
) -> tuple[Fetch, RequestCredentials | None]:
    user, place = chosen.user, chosen.user_place
    if user.auth_provider is not None:
        return auth_provider(chosen, tls=tls).fetch, None
    if user.token_file:
        source = TokenFile(Path(user.token_file), f"tokenFile of {place}", tls)
        return source.fetch, source.read()
    if user.exec is not None and not user.token:
        return exec_plugin(chosen, environ=environ, tls=tls, clock=clock).fetch, None
    headers = _fixed_headers(user, place)
    if not headers and (tls is None or not tls.certified):
        raise ConnectionProblem(
            f"{place} holds no credentials that this server could see, and anonymous access is "
            f"not tried; give it a token, tokenFile, client certificate (https only), exec, "
            f"auth-provider, or username and password"
        )
    fixed = StaticCredentials(headers, tls)
    return fixed.fetch, fixed.read()


def _name(chosen: Chosen) -> str:
    """Return what gives the credentials of a user, for messages."""
    user, place = chosen.user, chosen.user_place
    if user.auth_provider is not None:
        return f"auth-provider '{user.auth_provider.name}' of {place}"
    return f"exec plugin '{user.exec.command}' of {place}" if user.exec is not None else place


def _fixed_headers(user: User, place: str) -> Mapping[str, str]:
    if user.token:
        return authorization("Bearer", user.token, place=f"token of {place}")
    if user.username and user.password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return authorization("Basic", pair, place=f"username and password of {place}")
    return {}


def certificate_problem(certificate: ClientTls | None, origin: str, now: float) -> str:
    """Return why a client certificate cannot be used at a Unix time, with its dates; or nothing."""
    validity = certificate.validity if certificate is not None else None
    problem = validity.problem(now) if validity is not None else ""
    return f"the client certificate from {origin} {problem}" if problem else ""


def _warnings(
    base_url: str, chosen: Chosen, certificate: ClientTls | None, now: float
) -> Iterator[str]:
    if problem := certificate_problem(certificate, chosen.origin, now):
        yield f"{problem}; renew it, or correct the clock here"
    if not is_tls(base_url) and not is_loopback(urlsplit(base_url).hostname or ""):
        yield (
            f"credentials travel unencrypted to {base_url}; write https:// as 'server' in "
            f"{chosen.origin}"
        )
    if is_tls(base_url) and chosen.cluster.insecure_skip_tls_verify:
        yield (
            f"the certificate of {base_url} is not checked; put a certificate-authority in place "
            f"of insecure-skip-tls-verify into {chosen.origin}"
        )
