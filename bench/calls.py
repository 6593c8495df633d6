"""Requests of the bench itself: fast JSON over a few connections that stay open."""

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from kcm_host_testing.api_server import ApiServer

CONNECTIONS = 8
NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `kind` is the content type of the body."""

    method: str
    path: str
    body: Any = None
    kind: str = "application/json"
    accept: str = "application/json"


class Refused(RuntimeError):
    """The API server answered with an error; `code` is its status."""

    def __init__(self, call: Call, code: int, text: str) -> None:
        super().__init__(f"{call.method} {call.path} answered {code}: {text}")
        self.code = code


class Calls:
    """A context manager around the connections to one API server, as its administrator."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._runner = asyncio.Runner()
        self._session: aiohttp.ClientSession | None = None

    def one(self, call: Call) -> Any:
        """Send one request and give its answer."""
        return self.all([call])[0]

    def all(self, calls: Sequence[Call]) -> list[Any]:
        """Send all of them, as many at a time as there are connections; give the answers."""
        return self._runner.run(self._all(calls))

    def paced(self, calls: Sequence[Call], *, a_second: float) -> list[float]:
        """
        Send so many of them in each second, whether those before are answered or not.

        Return the moment of the clock at which each was answered.
        """
        return self._runner.run(self._paced(calls, a_second))

    def reconnect(self) -> None:
        """Close the connections; the next call opens new ones, to a server started anew."""
        if self._session is not None:
            self._runner.run(self._session.close())
            self._session = None

    async def _all(self, calls: Sequence[Call]) -> list[Any]:
        session = self._session or self._open()
        answers: list[Any] = [None] * len(calls)
        waiting = iter(enumerate(calls))

        async def work() -> None:
            await _answer(session, waiting, answers)

        await asyncio.gather(*(work() for _ in range(min(CONNECTIONS, len(calls)))))
        return answers

    async def _paced(self, calls: Sequence[Call], a_second: float) -> list[float]:
        session = self._session or self._open()
        began, answered_at = time.monotonic(), [0.0] * len(calls)
        waiting = iter(enumerate(calls))

        async def work() -> None:
            for position, call in waiting:
                await asyncio.sleep(began + position / a_second - time.monotonic())
                await _answer(session, iter([(0, call)]), [None])
                answered_at[position] = time.time()

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
        return answered_at

    def _open(self) -> aiohttp.ClientSession:
        context = ssl.create_default_context(cafile=self._server.ca_file)
        self._session = aiohttp.ClientSession(
            self._server.url,
            headers={
                "Authorization": f"Bearer {self._server.admin_token}",
                "User-Agent": "bench",
            },
            connector=aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS, keepalive_timeout=300),
        )
        return self._session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reconnect()
        self._runner.close()


async def _answer(
    session: aiohttp.ClientSession, waiting: Iterator[tuple[int, Call]], answers: list[Any]
) -> None:
    """Send what waits, one after the other, and put each answer in its place."""
    for position, call in waiting:
        headers = {"Content-Type": call.kind, "Accept": call.accept}
        body = None if call.body is None else orjson.dumps(call.body)
        async with session.request(call.method, call.path, data=body, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 400:
                raise Refused(call, answer.status, text[:500].decode())
            answers[position] = orjson.loads(text)
