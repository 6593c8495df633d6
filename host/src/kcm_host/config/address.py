"""Addresses in settings: where to listen, where to send."""

from ipaddress import AddressValueError, IPv6Address
from typing import Any
from urllib.parse import urlsplit

from kcm_host.config.wrong import wrong

_EXAMPLE = "write for example '127.0.0.1:10270' or '[::1]:10270'"
_HIGHEST_PORT = 65535
_LONGEST = 60
#: The same for JSON schemas, as near as a pattern comes.
BIND_PATTERN = (
    r"^([^\s/@?#\[\]:]+|\[(?=.*:.*:)[0-9A-Fa-f:.]+(%[^\s/@?#\[\]:]+)?\]):"
    r"([0-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
)
ENDPOINT_PATTERN = (
    r"^[Hh][Tt][Tt][Pp][Ss]?://([^\s/?#]*@)?([^\s/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?"
    r"([/?#]\S*)?$"
)


def check_bind(bind: Any) -> Any:
    """`bind` itself if it is host:port or no text at all; an error for pydantic if not."""
    if isinstance(bind, int) and not isinstance(bind, bool):
        bind = str(bind)
    if not isinstance(bind, str):
        return bind
    host, colon, port = bind.rpartition(":")
    if not colon and _is_port(port):
        raise wrong(f"'{port}' is a port without a host", f"write '127.0.0.1:{port}'")
    if not colon:
        raise wrong(f"'{_short(bind)}' has no port", _EXAMPLE)
    if not _is_port(port):
        raise wrong(f"'{_short(port)}' is no port", f"write a number from 0 to {_HIGHEST_PORT}")
    if not host:
        raise wrong(f"'{bind}' names no host", f"write '0.0.0.0{bind}' if every interface is meant")
    if any(sign in host for sign in "[]:") and not _is_bracketed(host):
        raise wrong(f"'{_short(bind)}' is no address", _EXAMPLE)
    if any(sign.isspace() or not sign.isprintable() or sign in "/@?#" for sign in host):
        raise wrong(f"'{_short(host)}' is no host", _EXAMPLE)
    return bind


def split_bind(bind: str) -> tuple[str, int]:
    """Host (without brackets) and port of an address that `check_bind` accepted."""
    host, _, port = bind.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_endpoint(endpoint: Any) -> Any:
    """`endpoint` itself if it is the URL of an HTTP server or no text; an error if not."""
    if isinstance(endpoint, int) and not isinstance(endpoint, bool):
        endpoint = str(endpoint)
    if not isinstance(endpoint, str):
        return endpoint
    try:
        url = urlsplit(endpoint)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        usable = usable and not any(sign.isspace() or not sign.isprintable() for sign in endpoint)
    except ValueError:
        usable = False
    if not usable:
        raise wrong("this is no URL of an HTTP server", "write for example 'http://127.0.0.1:4318'")
    return endpoint


def _is_port(text: str) -> bool:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(_HIGHEST_PORT))
    return digits and int(text) <= _HIGHEST_PORT


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_bracketed(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return False
    try:
        IPv6Address(host[1:-1])
    except AddressValueError:
        return False
    return True
