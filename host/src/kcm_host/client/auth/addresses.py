"""The URL of an API server, and the HTTP proxy before it from a URL or the environment."""

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from kcm_host.client.errors import ConnectionProblem


def server_url(url: str, *, place: str) -> str:
    """Return the URL without a trailing slash; raise ConnectionProblem if it is unusable."""
    try:
        parts = urlsplit(url)
        usable = is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        usable = False
    if usable and (parts.username is not None or parts.query or parts.fragment):
        # The URL is not shown: it contains a password before the @.
        raise ConnectionProblem(
            f"server of {place} may hold only scheme, host, port and path; put credentials into "
            f"the user"
        )
    if not usable or parts.scheme not in {"http", "https"}:
        shown = url.rpartition("@")[2]
        raise ConnectionProblem(
            f"server of {place} is not an http(s) URL: '{shown}'; write https://HOST:PORT"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_host(name: str) -> bool:
    """Return whether a name is an address, or can be resolved and sent as server name in TLS."""
    if _address(name) is not None:
        return True
    try:
        # With the codec that sockets and TLS use: a name that it refuses would raise at each
        # request.
        return _NAME.fullmatch(name.encode("idna")) is not None
    except UnicodeError:
        return False


_NAME = re.compile(rb"[A-Za-z0-9._-]+")


def is_tls(base_url: str) -> bool:
    """Return whether the connection uses TLS."""
    return base_url.startswith("https:")


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy: its URL without user information, and the headers that log in to it."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def usable_proxy(url: str, *, place: str) -> Proxy:
    """
    Return the proxy; raise ConnectionProblem unless the URL is http(s)://[USER:PASSWORD@]HOST[:PORT].

    The login is removed from the URL, because error texts repeat the URL.
    """
    # As in Go, a proxy without a scheme is an http proxy.
    scheme, _, rest = (url if "://" in url else f"http://{url}").partition("://")
    scheme = scheme.lower()
    if scheme not in {"http", "https"} and _SCHEME.fullmatch(scheme):
        raise ConnectionProblem(
            f"{place} names a '{scheme}' proxy, but only http and https proxies are supported; "
            f"name one of these"
        )
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        headers = _login(parts)
        usable = scheme in {"http", "https"} and parts.port != 0
        usable = usable and is_host(parts.hostname or "")
    except ValueError:
        usable = False
    if not usable:
        raise ConnectionProblem(f"{place} is not a proxy URL; write http://HOST:PORT")
    # The login is a header from here on, because errors name the URL of the proxy (F-2).
    return Proxy(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), headers)


def _login(parts: SplitResult) -> Mapping[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> Proxy | None:
    """
    Return the proxy of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, interpreted as in Go; None without.

    `localhost` and loopback addresses never use a proxy. Entries of NO_PROXY are `*`, addresses,
    networks (10.0.0.0/8), names (with their subdomains) or .names (subdomains only), addresses
    and names optionally with a port.
    """
    parts = urlsplit(server)
    variable = f"{parts.scheme.upper()}_PROXY"
    url = environ.get(variable) or environ.get(variable.lower())
    if not url or _excepted(parts, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return usable_proxy(url, place=f"environment variable {variable}")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _excepted(parts: SplitResult, exceptions: str) -> bool:
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return is_loopback(host) or any(_matches(entry, host, port) for entry in entries if entry)


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        return address is not None and _in_network(address, entry)
    name, wanted = _split_port(entry)
    if wanted and wanted != str(port):
        return False
    if (excepted := _address(name)) is not None:
        return excepted == address
    suffix = name.removeprefix("*")
    if suffix.startswith("."):
        return host.endswith(suffix)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
