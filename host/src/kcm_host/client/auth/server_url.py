"""Validation of the URL of an API server."""

from urllib.parse import urlsplit

from yarl import URL

from kcm_host.client.auth.errors import ConnectionProblem


def server_url(url: str, *, place: str) -> str:
    """Return the URL without a trailing slash; raise ConnectionProblem if it is unusable."""
    try:
        parts = urlsplit(url)
        usable = is_host(parts.hostname or "") and parts.port != 0 and bool(URL(url).host)
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
    """Return whether a name can be resolved, and sent as server name in TLS."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def is_tls(base_url: str) -> bool:
    """Return whether the connection uses TLS."""
    return base_url.startswith("https:")
