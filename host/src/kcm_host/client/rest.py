"""HTTP client of one API server: paths, requests with a response body, and watches."""

import platform
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import msgspec

from kcm_host import __version__
from kcm_host.api.errors import ApiError, InvalidKey, Unreachable, Unreadable
from kcm_host.api.kinds import Key, Kind
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import RequestCredentials
from kcm_host.client.errors import (
    MAX_BODY_BYTES,
    MAX_LIST_BYTES,
    ConnectionProblem,
    check_encoding,
    error_of_response,
    too_long,
    unreachable,
)
from kcm_host.client.http.lines import MAX_LINE_BYTES, HandleLine, LineStream, LineTooLong
from kcm_host.client.http.messages import Response
from kcm_host.client.http.transport import Request, Transport
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


class ConditionalResponse(msgspec.Struct, frozen=True):
    """The body of a conditional GET, and the ETag for the next one."""

    body: bytes
    etag: str


def user_agent_of(controller: str) -> str:
    """Return the User-Agent of a controller; the server derives its field manager (H-31)."""
    return f"kcm-host/{__version__} ({platform.system().lower()}/{platform.machine()}) {controller}"


class Watch:
    """The open watch of one path."""

    def __init__(self, lines: LineStream, operation: str) -> None:
        self._lines = lines
        self._operation = operation

    async def for_each(self, handle: HandleLine) -> int:
        """
        Call `handle` with each line until it returns True, or the server or the connection ends it.

        See `LineStream.for_each`. Return the number of lines. Raise what `handle` raises, and
        `ApiError` for a line without an end.
        """
        try:
            return await self._lines.for_each(handle)
        except LineTooLong as error:
            raise ApiError(
                f"{self._operation}: a line has no end after {MAX_LINE_BYTES >> 20} MiB, so no API "
                "server sent it; check what is between the host and the server",
                status=500,
            ) from error


class Client:
    """
    Client of one API server.

    `on_request` is called for every attempt (H-75). Error responses raise `ApiError`, missing
    ones `Unreachable`, unusable ones `Unreadable`. Compressed responses are neither requested nor
    accepted, bodies are bounded, redirects are not followed.
    """

    def __init__(self, connection: Connection, on_request: Callable[[RequestRecord], None]) -> None:
        self.connection = connection
        self._on_request = on_request
        self._host = connection.base_url.split("//", 1)[1].split("/", 1)[0]
        proxy = connection.proxy
        self._transport = Transport(
            connection.base_url,
            proxy_url=proxy.url if proxy is not None else None,
            proxy_headers=proxy.headers if proxy is not None else None,
            tls_server_name=connection.tls_server_name,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        user_agent: str,
        query: Query = (),
        body: bytes = b"",
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
        body: bytes = b"",
        content_type: str = "",
        accept: str = JSON,
    ) -> Response:
        """Send one request; return its response, which is a success."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        if content_type:
            headers["Content-Type"] = content_type
        request = _Request(method, path, verb, query=query, headers=headers, body=body)
        return (await self._send(request))[0]

    async def conditional_get(
        self, path: str, *, etag: str, user_agent: str, accept: str
    ) -> ConditionalResponse | None:
        """Get what is at `path`; return None when it is unchanged since `etag`."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        if etag:
            headers[IF_NONE_MATCH] = etag
        response, _ = await self._send(_Request("GET", path, "get", headers=headers))
        if response.status == NOT_MODIFIED:
            return None
        return ConditionalResponse(response.body, response.header(b"etag"))

    @asynccontextmanager
    async def watch(
        self, path: str, *, user_agent: str, query: Query, accept: str
    ) -> AsyncIterator[Watch]:
        """Open a watch, for the duration of the block."""
        headers = {"User-Agent": user_agent, "Accept": accept}
        request = _Request("GET", path, "watch", query=query, headers=headers)
        _, lines = await self._send(request)
        if lines is None:
            raise AssertionError("a watch has lines")
        try:
            yield Watch(lines, request.operation)
        finally:
            lines.close()

    async def _send(self, request: "_Request") -> tuple[Response, LineStream | None]:
        """
        Return the response, which is a success, and for a watch its lines.

        After a 401 the request is sent once more if there are new credentials: a token may have
        been replaced before its time.
        """
        error: ApiError | None = None
        credentials = await self._credentials()
        try:
            for is_last in (False, True):
                response, lines = await self._attempt(request, credentials)
                if response.status < 300 or request.is_not_modified(response):
                    return response, lines
                error = error_of_response(
                    response.status,
                    response.body,
                    operation=request.operation,
                    retry_after=response.header(b"retry-after"),
                )
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

    async def _attempt(
        self, request: "_Request", credentials: RequestCredentials
    ) -> tuple[Response, LineStream | None]:
        """Send a request once; return and record its response."""
        started = time.monotonic()
        status = received = 0
        lines: LineStream | None = None
        try:
            response, lines = await self._exchange(request, credentials)
            check_encoding(response, request.operation)
            if not response.is_complete and response.status < 300:
                raise too_long(request.operation, max_bytes=request.max_bytes)
            status, received = response.status, len(response.body)
        except OSError as error:
            raise unreachable(request.operation, error) from error
        except Unreadable:
            if lines is not None:
                lines.close()
            raise
        finally:
            # Also of an attempt that was cancelled, or ended without a usable response.
            self._on_request(
                RequestRecord(
                    method=request.method,
                    verb=request.verb,
                    host=self._host,
                    status=status,
                    seconds=time.monotonic() - started,
                    sent_bytes=len(request.body),
                    received_bytes=received,
                )
            )
        return response, lines

    async def _exchange(
        self, request: "_Request", credentials: RequestCredentials
    ) -> tuple[Response, LineStream | None]:
        message = Request(
            request.method,
            request.target,
            {**request.headers, **credentials.headers, **trace_headers()},
            body=request.body,
        )
        if request.verb == "watch":
            return await self._transport.open_stream(
                message,
                credentials.ssl,
                connect_seconds=CONNECT_SECONDS,
                silence_seconds=WATCH_READ_SECONDS,
            )
        response = await self._transport.round_trip(
            message, credentials.ssl, seconds=REQUEST_SECONDS, max_bytes=request.max_bytes
        )
        return response, None


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    verb: str
    headers: Mapping[str, str]
    query: Query = ()
    body: bytes = b""

    @property
    def operation(self) -> str:
        """Verb and path, for error texts."""
        return f"{self.verb} {self.path}"

    @property
    def target(self) -> str:
        """The encoded path and query."""
        return f"{self.path}?{_encode(self.query)}" if self.query else self.path

    @property
    def max_bytes(self) -> int:
        """The limit of the body: the decoder needs all of it in memory (F-25)."""
        return MAX_LIST_BYTES if self.verb == "list" else MAX_BODY_BYTES

    def is_not_modified(self, response: Response) -> bool:
        """Return whether a conditional GET was answered with 304."""
        return response.status == NOT_MODIFIED and IF_NONE_MATCH in self.headers


@lru_cache(maxsize=64)
def _encode(query: Query) -> str:
    return urlencode(query)


#: What the API server accepts as a path segment.
_SEGMENT = re.compile(r"(?!\.{1,2}\Z)[^/%]+")
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
    return _SEGMENT.fullmatch(text) is not None
