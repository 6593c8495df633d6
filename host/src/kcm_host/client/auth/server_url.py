"""Which URLs can be an API server's."""

from urllib.parse import urlsplit

from yarl import URL

from kcm_host.client.auth.errors import ConnectionProblem


def server_url(url: str, *, place: str) -> str:
    """Give the server's URL without a slash at its end; raises ConnectionProblem if unusable."""
    try:
        parts = urlsplit(url)
        usable = is_host(parts.hostname or "") and parts.port != 0 and bool(URL(url).host)
    except ValueError:
        usable = False
    if usable and (parts.username is not None or parts.query or parts.fragment):
        # Not shown: what stands before the @ is a password.
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
    """Whether a name can be looked up at all, and shown to a server in TLS."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def is_tls(base_url: str) -> bool:
    """Whether the server is spoken to over TLS."""
    return base_url.startswith("https:")
