"""HTTP client of one API server: paths, requests with a response body, and watches."""

import asyncio
import platform
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from kcm_host import __version__
from kcm_host.api.errors import ApiError, InvalidKey, Unreachable
from kcm_host.api.kinds import Key, Kind
from kcm_host.client.auth.addresses import is_tls
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import RequestCredentials
from kcm_host.client.errors import (
    MAX_BODY_BYTES,
    MAX_LIST_BYTES,
    ConnectionProblem,
    error_of_response,
    read_body,
    read_error_body,
    refuse_encoded,
)
from kcm_host.client.transport import abort, as_unreachable, new_session, read_lines
from kcm_host.observe.states import RequestRecord
from kcm_host.observe.trace_context import trace_headers

# As client-go (IQ-116).
CONNECT_SECONDS = 30
#: Half the time limit of a sync: a sync whose request gets no response can still handle that.
REQUEST_SECONDS = 30
#: The server sends a bookmark about once a minute; a watch without data for this long is dead.
#: Needed because there is no HTTP/2 with its pings: a silently broken connection would be noticed
#: only at the `timeoutSeconds` of the watch, after ten minutes (IQ-116).
WATCH_READ_SECONDS = 150

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
JSON = "application/json"

IF_NONE_MATCH = "If-None-Match"
NOT_MODIFIED = 304

Query = tuple[tuple[str, str], ...]


class Response(msgspec.Struct, frozen=True):
    """Status and body of a successful response."""

    status: int
    body: bytes


class ConditionalResponse(msgspec.Struct, frozen=True):
    """The body of a conditional GET, and the ETag for the next one."""

    body: bytes
    etag: str


def user_agent_of(controller: str) -> str:
    """Return the User-Agent of a controller; the server derives its field manager (H-31)."""
    return f"kcm-host/{__version__} ({platform.system().lower()}/{platform.machine()}) {controller}"


class Client:
    """
    Client of one API server, with separate connection pools for watches and other requests.

    `on_request` is called for every attempt (H-75). Error responses raise `ApiError`, missing
    ones `Unreachable`, unusable ones `Unreadable`. Compressed responses are neither requested nor
    accepted, bodies are bounded, redirects are not followed.
    """

    def __init__(self, connection: Connection, on_request: Callable[[RequestRecord], None]) -> None:
        self.connection = connection
        self._on_request = on_request
        self._host = connection.base_url.split("//", 1)[1].split("/", 1)[0]
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        watch_timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=WATCH_READ_SECONDS
        )
        self._session = new_session(timeout)
        self._watch_session = new_session(watch_timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()
        await self._watch_session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        user_agent: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
    ) -> bytes:
        """Send one request; return the body of its response."""
        response = await self.request(
            method,
            path,
            verb=verb,
            user_agent=user_agent,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
        )
        return response.body

    async def request(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        user_agent: str,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "",
        accept: str = JSON,
    ) -> Response:
        """Send one request; return its response, which is a success."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        if content_type:
            headers["Content-Type"] = content_type
        request = _Request(
            method=method, path=path, verb=verb, query=query, headers=headers, body=body
        )
        response, response_body = await self._round_trip(request)
        return Response(response.status, response_body)

    async def conditional_get(
        self, path: str, *, etag: str, user_agent: str, accept: str
    ) -> ConditionalResponse | None:
        """Get what is at `path`; return None when it is unchanged since `etag`."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        if etag:
            headers[IF_NONE_MATCH] = etag
        request = _Request(
            method="GET", path=path, verb="get", query=(), headers=headers, body=None
        )
        response, body = await self._round_trip(request)
        if response.status == NOT_MODIFIED:
            return None
        return ConditionalResponse(body, response.headers.get("ETag", ""))

    @asynccontextmanager
    async def watch(
        self, path: str, *, user_agent: str, query: Query, accept: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; yield its lines, until the server or the connection ends it."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        request = _Request(
            method="GET", path=path, verb="watch", query=query, headers=headers, body=None
        )
        response, started = await self._open(self._watch_session, request)
        async with response:
            self._record(request, response.status, started)
            try:
                yield read_lines(response.content.readany, request.operation)
            finally:
                abort(response)

    async def _round_trip(self, request: "_Request") -> tuple[aiohttp.ClientResponse, bytes]:
        """Send a request; return its response and the full body."""
        response, started = await self._open(self._session, request)
        async with response:
            with self._recording_failure(request, started), as_unreachable(request.operation):
                # Bounded before it is decoded: the decoder needs the whole body (F-25).
                max_bytes = MAX_LIST_BYTES if request.verb == "list" else MAX_BODY_BYTES
                body = await read_body(response, request.operation, max_bytes=max_bytes)
        self._record(request, response.status, started, received=len(body))
        return response, body

    async def _open(
        self, session: aiohttp.ClientSession, request: "_Request"
    ) -> tuple[aiohttp.ClientResponse, float]:
        """
        Return the response with its body unread, and the start time of the successful attempt.

        After a 401 the request is sent once more if there are new credentials: a token may have
        been replaced before its time.
        """
        error: ApiError | None = None
        credentials = await self._credentials()
        try:
            for is_last in (False, True):
                started = time.monotonic()
                with self._recording_failure(request, started):
                    response = await self._send(session, request, credentials)
                    refuse_encoded(response, request.operation)
                    if response.status < 300 or request.is_not_modified(response):
                        return response, started
                    error = await self._error(response, request.operation)
                self._record(request, response.status, started)
                if response.status != 401 or is_last:
                    raise error
                self.connection.credentials.invalidate(credentials)
                # Compared by identity: a source that has nothing newer returns the same
                # credentials, and a second attempt with them would only be refused again (F-29).
                refused, credentials = credentials, await self._credentials()
                if credentials is refused:
                    raise error
        finally:
            # Its traceback refers to this frame: a cycle for the garbage collector.
            error = None
        raise AssertionError("the second attempt returns or raises")

    async def _credentials(self) -> RequestCredentials:
        try:
            return await self.connection.credentials.current()
        except ConnectionProblem as problem:
            raise Unreachable(str(problem)) from problem

    async def _send(
        self, session: aiohttp.ClientSession, request: "_Request", credentials: RequestCredentials
    ) -> aiohttp.ClientResponse:
        proxy = self.connection.proxy
        login = proxy.headers if proxy is not None else {}
        # With TLS the proxy gets its login in a CONNECT request, otherwise in the request itself.
        tunnel = is_tls(self.connection.base_url)
        headers = {**request.headers, **credentials.headers, **trace_headers()}
        with as_unreachable(request.operation):
            return await session.request(
                request.method,
                request_url(self.connection.base_url, request.target),
                data=request.body,
                headers=headers if tunnel else {**headers, **login},
                ssl=credentials.ssl if credentials.ssl is not None else True,
                proxy=proxy.url if proxy is not None else None,
                proxy_headers=login if tunnel else None,
                server_hostname=self.connection.tls_server_name,
                allow_redirects=False,
            )

    @staticmethod
    async def _error(response: aiohttp.ClientResponse, operation: str) -> ApiError:
        async with response:
            with as_unreachable(operation):
                body = await read_error_body(response)
        return error_of_response(response.status, body, response.headers, operation=operation)

    @contextmanager
    def _recording_failure(self, request: "_Request", started: float) -> Iterator[None]:
        """Record an attempt that ends without a complete response, also a cancelled one."""
        try:
            yield
        except (Unreachable, asyncio.CancelledError):
            self._record(request, 0, started)
            raise

    def _record(self, request: "_Request", status: int, started: float, received: int = 0) -> None:
        seconds = time.monotonic() - started
        sent = len(request.body or b"")
        self._on_request(
            RequestRecord(
                method=request.method,
                verb=request.verb,
                host=self._host,
                status=status,
                seconds=seconds,
                sent_bytes=sent,
                received_bytes=received,
            )
        )


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    verb: str
    query: Query
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def operation(self) -> str:
        """Verb and path, for error texts."""
        return f"{self.verb} {self.path}"

    @property
    def target(self) -> str:
        """The encoded path and query."""
        return f"{self.path}?{_encode(self.query)}" if self.query else self.path

    def is_not_modified(self, response: aiohttp.ClientResponse) -> bool:
        """Return whether a conditional GET was answered with 304."""
        return response.status == NOT_MODIFIED and IF_NONE_MATCH in self.headers


def request_url(base_url: str, target: str) -> URL:
    """Return the URL of a request; `target` is its encoded path and query."""
    # yarl would otherwise decode and encode it anew, and not to the same text.
    return URL(base_url + target, encoded=True)


@lru_cache(maxsize=64)
def _encode(query: Query) -> str:
    return urlencode(query)


#: Names that the API server refuses as a path segment.
_REFUSED_SEGMENTS = ("", ".", "..")
_REFUSED_CHARACTERS = ("/", "%")
_SEGMENT_RULE = "it is not empty, '.' or '..', and has no '/' or '%'"


def collection(kind: Kind, namespace: str = "") -> str:
    """Return the path of all objects of a kind, or of those in one namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{kind.resource}"


def item(kind: Kind, key: Key, subresource: str = "") -> str:
    """Return the path of one object or subresource; raise `InvalidKey` for an unusable key."""
    check_key(kind, key)
    path = f"{collection(kind, key.namespace)}/{quote(key.name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def check_key(kind: Kind, key: Key) -> None:
    """Raise `InvalidKey` unless `key` can be name and namespace of one object of `kind`."""
    problem = _problem(kind, key)
    if problem:
        # As repr: str(key) would not show an empty name or a slash.
        text = f"no request for '{kind}' name={key.name!r} in {key.namespace!r}: {problem}"
        raise InvalidKey(text)


def _problem(kind: Kind, key: Key) -> str:
    if not _is_segment(key.name):
        return f"that is no name of a {kind.name}; {_SEGMENT_RULE}"
    if not kind.namespaced:
        no_namespace = f"a {kind.name} has no namespace; leave 'namespace' out"
        return no_namespace if key.namespace else ""
    if not key.namespace:
        return f"a {kind.name} is in a namespace; give it as namespace='...'"
    return "" if _is_segment(key.namespace) else f"that is no namespace; {_SEGMENT_RULE}"


def _is_segment(text: str) -> bool:
    return text not in _REFUSED_SEGMENTS and not any(each in text for each in _REFUSED_CHARACTERS)
