"""Requests to one API server: calls with an answer, and watches that go on."""

import asyncio
import errno
import platform
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from kcm_host import __version__
from kcm_host.api.errors import ApiError, Unreachable
from kcm_host.api.states import RequestRecord
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import RequestCredentials
from kcm_host.client.auth.errors import ConnectionProblem, without_secrets
from kcm_host.client.auth.server_url import is_tls
from kcm_host.client.connection_pool import Pool
from kcm_host.client.errors import (
    LONGEST_BODY,
    LONGEST_LIST,
    error_of_response,
    read_body,
    read_error,
    refuse_encoded,
)
from kcm_host.client.frames import lines
from kcm_host.observe.logging import trace_headers

CONNECT_SECONDS = 30
#: Half of what a sync may take: a sync whose request gets no answer hears of it and can act on it.
CALL_SECONDS = 30
#: The server sends a bookmark about once a minute; a watch silent for longer than this is dead.
SILENCE_SECONDS = 150

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
JSON = "application/json"

IF_NONE_MATCH = "If-None-Match"
NOT_MODIFIED = 304

Query = tuple[tuple[str, str], ...]


class Answer(msgspec.Struct, frozen=True):
    """Status and body of an answer."""

    status: int
    body: bytes


class ConditionalResponse(msgspec.Struct, frozen=True):
    """A body, and the tag that lets the next request ask for another one only."""

    body: bytes
    tag: str


def user_agent(controller: str) -> str:
    """Give the user agent of one controller; the server takes its field manager from it (H-31)."""
    return f"kcm-host/{__version__} ({platform.system().lower()}/{platform.machine()}) {controller}"


class Client:
    """
    One connection to the API server, with separate connection pools for watches and calls.

    `on_request` hears of every attempt (H-75). Error answers raise `ApiError`, missing answers
    `Unreachable`, unusable ones `Unreadable`. Response compression is not asked for and not
    accepted, bodies are bounded, redirects are not followed.
    """

    def __init__(self, connection: Connection, on_request: Callable[[RequestRecord], None]) -> None:
        self.connection = connection
        self._on_request = on_request
        self._host = connection.base_url.split("//", 1)[1].split("/", 1)[0]
        calls = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        watches = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        self._calls = _session(calls)
        self._watches = _session(watches)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._calls.close()
        await self._watches.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        agent: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
    ) -> bytes:
        """Send one request and give the body of its answer."""
        answer = await self.answer(
            method,
            path,
            verb=verb,
            agent=agent,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
        )
        return answer.body

    async def answer(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        agent: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
    ) -> "Answer":
        """Send one request and give its answer, which is no error."""
        headers = {"User-Agent": agent, "Accept": accept}
        if content_type:
            headers["Content-Type"] = content_type
        request = _Request(method, path, verb, query, headers, body)
        response, answered = await self._exchange(request)
        return Answer(response.status, answered)

    async def conditional_get(
        self, path: str, *, tag: str, agent: str, accept: str
    ) -> "ConditionalResponse | None":
        """Get what is at `path`, None when it is still that which came with `tag`."""
        headers = {"User-Agent": agent, "Accept": accept}
        if tag:
            headers[IF_NONE_MATCH] = tag
        request = _Request("GET", path, "get", (), headers, None)
        response, answer = await self._exchange(request)
        if response.status == NOT_MODIFIED:
            return None
        return ConditionalResponse(answer, response.headers.get("ETag", ""))

    @asynccontextmanager
    async def watch(
        self, path: str, *, agent: str, query: Query, accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; gives its lines, as they arrive, until server or connection end it."""
        headers = {"User-Agent": agent, "Accept": accept}
        request = _Request("GET", path, "watch", query, headers, None)
        response, started = await self._open(self._watches, request)
        async with response:
            self._record(request, response.status, started)
            try:
                yield lines(response.content.readany, request.what)
            finally:
                _abort_tls(response)

    async def _exchange(self, request: "_Request") -> tuple[aiohttp.ClientResponse, bytes]:
        """Give the head of the answer, and its whole body."""
        response, started = await self._open(self._calls, request)
        async with response:
            with self._lost(request, started), unreachable(request.what):
                most = LONGEST_LIST if request.verb == "list" else LONGEST_BODY
                answer = await read_body(response, request.what, most=most)
        self._record(request, response.status, started, len(answer))
        return response, answer

    async def _open(
        self, session: aiohttp.ClientSession, request: "_Request"
    ) -> tuple[aiohttp.ClientResponse, float]:
        """
        Give the answer's head, once it is no error, and when that attempt began.

        A 401 is tried once more with fresh credentials, if there are any: a token may have been
        replaced early.
        """
        error: ApiError | None = None
        identity = await self._identity()
        try:
            for last in (False, True):
                started = time.monotonic()
                with self._lost(request, started):
                    response = await self._send(session, request, identity)
                    refuse_encoded(response, request.what)
                    if response.status < 300 or request.is_known(response):
                        return response, started
                    error = await self._error(response, request.what)
                self._record(request, response.status, started)
                if response.status != 401 or last:
                    raise error
                self.connection.credentials.invalidate(identity)
                refused, identity = identity, await self._identity()
                if identity is refused:
                    raise error
        finally:
            # Its traceback holds this frame: a circle that only the garbage collector could free.
            error = None
        raise AssertionError("the second attempt returns or raises")

    async def _identity(self) -> RequestCredentials:
        try:
            return await self.connection.credentials.current()
        except ConnectionProblem as problem:
            raise Unreachable(str(problem)) from problem

    async def _send(
        self, session: aiohttp.ClientSession, request: "_Request", identity: RequestCredentials
    ) -> aiohttp.ClientResponse:
        proxy = self.connection.proxy
        login = proxy.headers if proxy is not None else {}
        # A tunnel is asked for in a request of its own; other requests go to the proxy themselves.
        tunnel = is_tls(self.connection.base_url)
        headers = {**request.headers, **identity.headers, **trace_headers()}
        with unreachable(request.what):
            return await session.request(
                request.method,
                request_url(self.connection.base_url, request.target),
                data=request.body,
                headers=headers if tunnel else {**headers, **login},
                ssl=identity.ssl if identity.ssl is not None else True,
                proxy=proxy.url if proxy is not None else None,
                proxy_headers=login if tunnel else None,
                server_hostname=self.connection.tls_server_name,
                allow_redirects=False,
            )

    @staticmethod
    async def _error(response: aiohttp.ClientResponse, what: str) -> ApiError:
        async with response:
            with unreachable(what):
                body = await read_error(response)
        return error_of_response(response.status, body, response.headers, what)

    @contextmanager
    def _lost(self, request: "_Request", started: float) -> Iterator[None]:
        """Record an attempt that ends without a whole answer, cancelled ones too."""
        try:
            yield
        except (Unreachable, asyncio.CancelledError):
            self._record(request, 0, started)
            raise

    def _record(self, request: "_Request", status: int, started: float, received: int = 0) -> None:
        seconds = time.monotonic() - started
        sent = len(request.body or b"")
        self._on_request(
            RequestRecord(request.method, request.verb, self._host, status, seconds, sent, received)
        )


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    verb: str
    query: Query
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def what(self) -> str:
        return f"{self.verb} {self.path}"

    @property
    def target(self) -> str:
        """Path and query as they go over the wire: nobody has to look for what to quote."""
        return f"{self.path}?{_encoded(self.query)}" if self.query else self.path

    def is_known(self, response: aiohttp.ClientResponse) -> bool:
        """Whether the answer is that nothing has changed, which was asked."""
        return response.status == NOT_MODIFIED and IF_NONE_MATCH in self.headers


def request_url(base_url: str, target: str) -> URL:
    """Return the URL of a request; `target` is path and query as they go over the wire."""
    return URL(base_url + target, encoded=True)


@lru_cache(maxsize=64)
def _encoded(query: Query) -> str:
    return urlencode(query)


def _session(timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=Pool(limit=0, keepalive_timeout=90),
        timeout=timeout,
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _abort_tls(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that goes on, without the goodbye of TLS."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        # A goodbye waits up to 30 s for the other side, which may be the one that fell silent.
        transport.abort()


@contextmanager
def unreachable(what: str) -> Iterator[None]:
    """Turn the many ways in which no answer comes into `Unreachable`."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        refused = isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED
        raise Unreachable(f"{what}: no answer: {_told(error)}", refused=refused) from error


def _told(error: Exception) -> str:
    """Return the text of a failed request without any password of a proxy."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses to connect ({error.status})"
    if isinstance(error, aiohttp.ClientConnectorError):
        # Its own text shows the TLS context as an object of Python.
        fact = error.os_error.strerror or str(error.os_error) or type(error.os_error).__name__
        return f"cannot connect to {error.host}:{error.port}: {fact}"
    return without_secrets(str(error)) or type(error).__name__
