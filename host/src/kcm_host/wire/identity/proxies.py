"""Which proxy stands between us and the API server."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from kcm_host.wire.identity.problem import ConnectionProblem


def usable_proxy(url: str, *, place: str) -> str:
    """Give the proxy's URL; raises ConnectionProblem unless it is http(s)://HOST[:PORT]."""
    # As in Go, a proxy without a scheme is an http proxy.
    scheme, _, rest = (url if "://" in url else f"http://{url}").partition("://")
    if scheme.lower() not in {"http", "https"}:
        raise ConnectionProblem(
            f"{place} names a '{scheme}' proxy, but only http and https proxies are supported; "
            f"name one of these"
        )
    full = f"{scheme.lower()}://{rest}"
    try:
        parts = urlsplit(full)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConnectionProblem(f"{place} is not a proxy URL; write http://HOST:PORT")
    return full


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str | None:
    """
    Give the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY ask for, as programs in Go read them.

    `localhost` and loopback addresses never get one. Entries of NO_PROXY are `*`, addresses,
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
    """Whether requests to this host stay on this machine."""
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
