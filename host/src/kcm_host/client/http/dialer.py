"""Opens connections to one server, directly or through a proxy, with or without TLS."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

from aiohappyeyeballs import start_connection

from kcm_host.client.http.connection import ConnectionLost, HTTPConnection, Owner
from kcm_host.client.http.messages import encode_request

try:
    import aiofastnet
except ImportError:
    is_fast = False
else:
    #: Whether the transports and the TLS of aiofastnet are used, which are asyncio's in C.
    #: Everything works without.
    is_fast = True

#: After this time the next address of a name is tried beside the one before (RFC 8305).
HAPPY_EYEBALLS_SECONDS = 0.25
_PORTS = {"http": 80, "https": 443}


class DialError(ConnectionError):
    """
    A connection could not be opened.

    `cause` is the exception of the system or of TLS; `to_proxy` says that it was the one to the
    proxy.
    """

    def __init__(self, address: str, cause: OSError, *, to_proxy: bool) -> None:
        fact = cause.strerror or str(cause) or type(cause).__name__
        super().__init__(f"cannot connect to {address}: {fact}")
        self.cause = cause
        self.to_proxy = to_proxy


class ProxyRefused(ConnectionError):
    """The proxy refuses to connect; `status` is that of its response."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy refuses to connect ({status})")
        self.status = status


class Address:
    """The host and the port of a URL."""

    def __init__(self, url: SplitResult) -> None:
        self.host = url.hostname or ""
        self.port = url.port or _PORTS[url.scheme]
        self.is_tls = url.scheme == "https"
        ascii_host = self.host.encode("idna").decode("ascii") if self.host else ""
        self._name = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
        #: For the Host header, where the usual port is left out.
        self.authority = f"{self._name}:{url.port}" if url.port else self._name

    def __str__(self) -> str:
        return f"{self._name}:{self.port}"


class Dialer:
    """Opens connections to the server of a URL; `proxy_headers` log in to the proxy."""

    def __init__(
        self,
        url: str,
        *,
        proxy_url: str | None,
        proxy_headers: Mapping[str, str],
        tls_server_name: str | None,
    ) -> None:
        self.address = Address(urlsplit(url))
        self._proxy = Address(urlsplit(proxy_url)) if proxy_url else None
        self._proxy_headers = proxy_headers
        self._tls_server_name = tls_server_name or self.address.host

    @property
    def uses_plain_proxy(self) -> bool:
        """True when requests go to a proxy that has to read and forward them."""
        return self._proxy is not None and not self.address.is_tls

    async def dial(self, owner: Owner, context: ssl.SSLContext | None) -> HTTPConnection:
        """
        Return a new connection; `context` of None verifies with the system's trust store.

        Raise `DialError` or `ProxyRefused`. There is no time limit here.
        """
        if self._proxy is None:
            return await _connect(
                self.address, owner, context, tls_server_name=self._tls_server_name
            )
        # As Go's client: the certificate authorities and the client certificate are also for the
        # proxy.
        connection = await _connect(self._proxy, owner, context, tls_server_name=None)
        if not self.address.is_tls:
            return connection
        try:
            return await self._through_tunnel(connection, owner, context)
        finally:
            connection.abort()

    async def _through_tunnel(
        self, connection: HTTPConnection, owner: Owner, context: ssl.SSLContext | None
    ) -> HTTPConnection:
        target = str(self.address)
        headers = {"Host": target, **self._proxy_headers}
        status = await connection.open_tunnel(encode_request("CONNECT", target, headers=headers))
        if not 200 <= status < 300:
            raise ProxyRefused(status)
        return await _secured(connection.detach(), owner, context, name=self._tls_server_name)


async def _secured(
    tunnel: asyncio.Transport, owner: Owner, context: ssl.SSLContext | None, *, name: str
) -> HTTPConnection:
    """Return a connection that uses TLS inside of `tunnel`."""
    loop = asyncio.get_running_loop()
    connection = HTTPConnection(owner)
    context = context or ssl.create_default_context()
    start = partial(aiofastnet.start_tls, loop) if is_fast else loop.start_tls
    try:
        transport = await start(tunnel, connection, context, server_hostname=name)
    except BaseException as error:
        tunnel.abort()
        if isinstance(error, OSError):
            raise DialError(name, error, to_proxy=False) from error
        raise
    if transport is None:
        raise ConnectionLost("the proxy closed the connection", is_unanswered=True)
    connection.connection_made(transport)
    return connection


async def _connect(
    address: Address, owner: Owner, context: ssl.SSLContext | None, *, tls_server_name: str | None
) -> HTTPConnection:
    loop = asyncio.get_running_loop()
    create = partial(aiofastnet.create_connection, loop) if is_fast else loop.create_connection
    options: dict[str, Any] = {}
    if address.is_tls:
        options["ssl"] = context or ssl.create_default_context()
        options["server_hostname"] = tls_server_name or address.host
    connection = HTTPConnection(owner)
    try:
        found = await _resolve(address)
        # Not by the loop: where several addresses fail, it forgets why.
        opened = await start_connection(found, happy_eyeballs_delay=HAPPY_EYEBALLS_SECONDS)
        try:
            await create(lambda: connection, sock=opened, **options)
        except BaseException:
            # Before the socket: a transport that only closes waits for the peer, and uses it.
            connection.abort()
            opened.close()
            raise
    except OSError as error:
        raise DialError(str(address), error, to_proxy=tls_server_name is None) from error
    return connection


async def _resolve(address: Address) -> list[Any]:
    """Return the addresses of a host as `getaddrinfo` does."""
    where: dict[str, Any] = {"port": address.port, "type": socket.SOCK_STREAM}
    try:
        # Most servers are named by their address. The loop would start threads even for these.
        return socket.getaddrinfo(address.host, flags=socket.AI_NUMERICHOST, **where)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(address.host, **where)
