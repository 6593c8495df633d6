"""Connections to an API server, from a kubeconfig or the service account of the pod."""

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kcm_host.client.auth.addresses import (
    Proxy,
    is_loopback,
    is_tls,
    proxy_from_environment,
    server_url,
    usable_proxy,
)
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
from kcm_host.client.auth.exec_plugin import exec_plugin
from kcm_host.client.auth.kubeconfig import ResolvedContext, User, decode_data, resolve_context
from kcm_host.client.auth.tls import CABundle, ClientTls, KeyPair, private_folder
from kcm_host.client.errors import ConnectionProblem

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """
    The address of the API server and the credentials for it.

    `base_url` has no trailing slash. `origin` names the source of all this in messages.
    `tls_server_name` is the name to verify the server's certificate against, None for the host of
    the URL. `certificate` is the client certificate where that is the only credential. `warnings`
    are for the operator: `check` prints them, `run` logs them.
    """

    base_url: str
    credentials: Credentials
    origin: str
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
    Return the connection of the first source that exists.

    In this order: the kubeconfig named here, those in $KUBECONFIG, the service account of the pod,
    ~/.kube/config. Only files are read: exec plugins and auth providers run, and may fail, at the
    first `credentials.current()`. Raise ConnectionProblem (exit code 2), also without any
    credentials: anonymous access is never used.
    """
    home = Path(environ.get("HOME") or "/")
    # A name that is given must work or fail; only without one are the usual places searched.
    paths = _named_path(kubeconfig, home=home) or _paths_from_environment(environ, home=home)
    if not paths and _is_pod(environ, service_account):
        return _from_service_account(environ, service_account, monotonic)
    paths = paths or _default_path(home, environ, service_account)
    return _from_kubeconfig(paths, environ, clock, monotonic=monotonic)


def _named_path(kubeconfig: str | None, *, home: Path) -> tuple[Path, ...]:
    return (_expand_home(kubeconfig, home),) if kubeconfig else ()


def _paths_from_environment(environ: Mapping[str, str], *, home: Path) -> tuple[Path, ...]:
    value = environ.get("KUBECONFIG", "")
    listed = [_expand_home(entry, home) for entry in value.split(":") if entry]
    existing = tuple(path for path in listed if path.exists())
    if listed and not existing:
        raise ConnectionProblem(
            f"no file in $KUBECONFIG exists: '{value}'; correct or unset the variable"
        )
    return existing


def _default_path(home: Path, environ: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
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


def _expand_home(name: str, home: Path) -> Path:
    return home / name.removeprefix("~/") if name.startswith("~/") else Path(name)


def _is_pod(environ: Mapping[str, str], folder: Path) -> bool:
    variables = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return all(environ.get(name) for name in variables) and (folder / "token").exists()


def _from_service_account(
    environ: Mapping[str, str], folder: Path, monotonic: Monotonic
) -> Connection:
    token, authority = folder / "token", folder / "ca.crt"
    place = f"certificate authority '{authority}'"
    ca_bundle = CABundle(_read_text(authority, place=place), place)
    source = TokenFile(token, "token file", ClientTls(ca_bundle))
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    address = f"[{host}]" if ":" in host else host
    base_url = server_url(f"https://{address}:{port}", place="the pod's environment")
    return Connection(
        base_url=base_url,
        credentials=Credentials(source.fetch, initial=source.read(), monotonic=monotonic),
        origin="in-cluster service account",
        ca_bundle=ca_bundle,
        proxy=proxy_from_environment(base_url, environ),
    )


def _from_kubeconfig(
    paths: tuple[Path, ...], environ: Mapping[str, str], clock: Clock, monotonic: Monotonic
) -> Connection:
    resolved = resolve_context(paths)
    cluster = resolved.cluster
    base_url = server_url(cluster.server, place=resolved.cluster_place)
    ca_bundle = _ca_bundle(resolved)
    tls = _client_tls(resolved, ca_bundle) if is_tls(base_url) else None
    fetch, initial = _credential_source(resolved, tls=tls, environ=environ, clock=clock)
    certificate = tls if initial is not None and not initial.headers else None
    return Connection(
        base_url=base_url,
        credentials=Credentials(
            fetch, initial=initial, clock=clock, monotonic=monotonic, source=_source_name(resolved)
        ),
        origin=resolved.origin,
        ca_bundle=ca_bundle,
        proxy=usable_proxy(cluster.proxy_url, place=f"proxy-url of {resolved.cluster_place}")
        if cluster.proxy_url
        else proxy_from_environment(base_url, environ),
        tls_server_name=cluster.tls_server_name or None,
        certificate=certificate,
        warnings=tuple(_warnings(base_url, resolved, certificate, now=clock())),
    )


def _ca_bundle(resolved: ResolvedContext) -> CABundle:
    cluster = resolved.cluster
    insecure = cluster.insecure_skip_tls_verify
    if cluster.certificate_authority_data:
        place = f"certificate-authority-data of {resolved.cluster_place}"
        return CABundle(
            decode_data(cluster.certificate_authority_data).decode(errors="replace"), place
        )
    if cluster.certificate_authority:
        place = f"certificate-authority of {resolved.cluster_place}"
        return CABundle(_read_text(Path(cluster.certificate_authority), place=place), place)
    return CABundle(insecure=insecure)


def _client_tls(resolved: ResolvedContext, ca_bundle: CABundle) -> ClientTls:
    """Return the TLS part of a user; embedded keys are on disk only while OpenSSL reads them."""
    user = resolved.user
    data = (user.client_certificate_data, user.client_key_data)
    if not any(data):
        if not user.client_certificate:
            return ClientTls(ca_bundle)
        pair = (Path(user.client_certificate), Path(user.client_key))
        return ClientTls(ca_bundle, KeyPair(*pair, resolved.user_place, reloadable=True))
    with private_folder() as folder:
        certificate = _data_file(folder / "certificate", data[0], user.client_certificate)
        key = _data_file(folder / "key", data[1], user.client_key)
        return ClientTls(
            ca_bundle, KeyPair(certificate, key, resolved.user_place, reloadable=False)
        )


def _data_file(path: Path, data: str, named: str) -> Path:
    if not data:
        return Path(named)
    path.write_bytes(decode_data(data))
    return path


def _read_text(path: Path, *, place: str) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConnectionProblem(
            f"{place} cannot be read: {error.strerror}; restore the file, or name a kubeconfig "
            f"with --kubeconfig"
        ) from None


def _credential_source(
    resolved: ResolvedContext,
    *,
    tls: ClientTls | None,
    environ: Mapping[str, str],
    clock: Clock,
) -> tuple[Fetch, RequestCredentials | None]:
    user, place = resolved.user, resolved.user_place
    # In the order of client-go: a token file is read anew and therefore beats a token, and a token
    # is set before an exec plugin is asked.
    if user.auth_provider is not None:
        return auth_provider(resolved, tls=tls).fetch, None
    if user.token_file:
        source = TokenFile(Path(user.token_file), f"tokenFile of {place}", tls)
        return source.fetch, source.read()
    if user.exec is not None and not user.token:
        return exec_plugin(resolved, environ=environ, tls=tls, clock=clock).fetch, None
    headers = _static_headers(user, place)
    # A server may take anonymous requests and answer each with 403: it is said here, where it can
    # be mended.
    if not headers and (tls is None or not tls.has_certificate):
        raise ConnectionProblem(
            f"{place} holds no credentials that this server could see, and anonymous access is "
            f"not tried; give it a token, tokenFile, client certificate (https only), exec, "
            f"auth-provider, or username and password"
        )
    static = StaticCredentials(headers, tls)
    return static.fetch, static.read()


def _source_name(resolved: ResolvedContext) -> str:
    """Return the name of the credential source of a user, for messages."""
    user, place = resolved.user, resolved.user_place
    if user.auth_provider is not None:
        return f"auth-provider '{user.auth_provider.name}' of {place}"
    return f"exec plugin '{user.exec.command}' of {place}" if user.exec is not None else place


def _static_headers(user: User, place: str) -> Mapping[str, str]:
    if user.token:
        return authorization("Bearer", user.token, place=f"token of {place}")
    if user.username and user.password:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return authorization("Basic", pair, place=f"username and password of {place}")
    return {}


def certificate_problem(certificate: ClientTls | None, origin: str, now: float) -> str:
    """Return why a client certificate is invalid at a Unix time, with its dates; or empty."""
    validity = certificate.validity if certificate is not None else None
    problem = validity.problem(now) if validity is not None else ""
    return f"the client certificate from {origin} {problem}" if problem else ""


def _warnings(
    base_url: str, resolved: ResolvedContext, certificate: ClientTls | None, now: float
) -> Iterator[str]:
    if problem := certificate_problem(certificate, resolved.origin, now):
        yield f"{problem}; renew it, or correct the clock here"
    if not is_tls(base_url) and not is_loopback(urlsplit(base_url).hostname or ""):
        yield (
            f"credentials travel unencrypted to {base_url}; write https:// as 'server' in "
            f"{resolved.origin}"
        )
    if is_tls(base_url) and resolved.cluster.insecure_skip_tls_verify:
        yield (
            f"the certificate of {base_url} is not checked; put a certificate-authority in place "
            f"of insecure-skip-tls-verify into {resolved.origin}"
        )
