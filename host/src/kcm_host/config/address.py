"""Addresses in settings: where to listen, where to send."""

from ipaddress import AddressValueError, IPv6Address
from urllib.parse import urlsplit

from kcm_host.config.wrong import wrong

_EXAMPLE = "write for example '127.0.0.1:10270' or '[::1]:10270'"
_HIGHEST_PORT = 65535


def check_bind(bind: str) -> str:
    """`bind` itself if it is host:port; an error for pydantic if not."""
    host, colon, port = bind.rpartition(":")
    if not colon:
        raise wrong(f"'{bind}' has no port", _EXAMPLE)
    if not host:
        raise wrong(f"'{bind}' names no host", f"write '0.0.0.0{bind}' if every interface is meant")
    if not (port.isascii() and port.isdigit()) or int(port[:6]) > _HIGHEST_PORT:
        raise wrong(f"'{port}' is no port", f"write a number from 0 to {_HIGHEST_PORT}")
    if any(sign in host for sign in "[]:") and not _is_bracketed(host):
        raise wrong(f"'{bind}' is no address", _EXAMPLE)
    if any(sign.isspace() or sign in "/@?#" for sign in host):
        raise wrong(f"'{host}' is no host", _EXAMPLE)
    return bind


def split_bind(bind: str) -> tuple[str, int]:
    """Host (without brackets) and port of an address that `check_bind` accepted."""
    host, _, port = bind.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_endpoint(endpoint: str) -> str:
    """`endpoint` itself if it is the URL of an HTTP server; an error for pydantic if not."""
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise wrong("this is no URL of an HTTP server", "write for example 'http://127.0.0.1:4318'")
    return endpoint


def _is_bracketed(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        IPv6Address(host[1:-1])
    except AddressValueError:
        return False
    return True
