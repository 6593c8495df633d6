"""Watches and lists of a server that says anything: the stream goes on and its neighbours come."""

import asyncio
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from fuzz_input import one_input
from hypothesis import given
from hypothesis import strategies as st

from kcm_host import retries
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watch import Change
from kcm_host.client.auth.connection import connect
from kcm_host.client.rest import Client
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.informer.reflector import Reflector
from kcm_host.informer.shared_informer import SharedInformer

POD = Kind(group="", version="v1", name="Pod", resource="pods")
#: Bad input may cost waits and a new list; more than this is a stream that hangs.
HANG_SECONDS = 60.0


class Pod(msgspec.Struct, frozen=True, gc=False):
    """What the reader reads: text, a number, and a field of any shape."""

    node: str = ""
    count: int = 0
    tree: Any = None


def _object(name: str, **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": "7"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, **fields}


def _line(sort: str, told: Any) -> bytes:
    return json.dumps({"type": sort, "object": told}).encode()


def _good(number: int) -> dict[str, Any]:
    return _object(f"good-{number}", node=f"n{number}")


END = {"k8s.io/initial-events-end": "true"}
BOOKMARK = {"kind": "Pod", "metadata": {"resourceVersion": "9", "annotations": END}}
CLEAN = [*(_line("ADDED", _good(number)) for number in range(4)), _line("BOOKMARK", BOOKMARK)]
EXPECTED = {Key(f"good-{number}", "team"): Pod(f"n{number}") for number in range(4)}

scalars = st.sampled_from(
    [None, True, -1, 2**63, 1.5, "", "x", "true", "ADDED", "\\ud800", "\U0001f600"]
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(scalars.map(str), inner, max_size=3)
    ),
    max_leaves=6,
)
#: Text that a JSON library would not write.
ODD = st.one_of(
    st.sampled_from([b"1e999", b"-0", b"9" * 5_000, b'"\xff"', b'"\x01"', b'{"a":1,"a":2}']),
    st.sampled_from([rb'"\ud800"', rb'"\udc00\ud800"', b'"%b"' % (b"x" * 300_000), b"[" * 50_000]),
    st.sampled_from([b"nul", b"[1,]", b"{,}"]),
    st.builds(
        lambda opening, inner, levels: opening * levels + b"1" + inner * levels,
        st.sampled_from([b"[", b'{"a":', b'{"metadata":']),
        st.sampled_from([b"]", b"}", b""]),
        st.integers(1, 3_000),
    ),
    st.binary(max_size=30),
)


@st.composite
def mutated(draw: st.DrawFn, text: bytes) -> bytes:
    """Return `text` with some bytes put in, taken out or exchanged, or cut short."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.sampled_from([0, 0, 1, 5, len(text)])))
        text = (
            text[:begin]
            + draw(st.sampled_from([b"", b'"', b"{", b"]", b"\\", b"\xff", b"0", b"\n"]))
            + text[end:]
        )
    return text


@st.composite
def wrong_types(draw: st.DrawFn) -> bytes:
    """Return an event in which any value may be another one."""

    def maybe(value: Any) -> Any:
        return draw(values) if draw(st.integers(0, 4)) == 0 else value

    meta = {name: maybe(value) for name, value in _object("other")["metadata"].items()}
    told = {"kind": maybe("Pod"), "metadata": maybe(meta), "node": maybe("n"), "count": maybe(1)}
    sort = draw(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "RENAMED"]))
    return json.dumps(
        {"type": maybe(sort), "object": maybe({**told, "tree": draw(values)})}
    ).encode()


@st.composite
def odd_inside(draw: st.DrawFn) -> bytes:
    """Return an event or an item with odd text as one of its values, or of its names."""
    fields = ["type", "kind", "name", "uid", "resourceVersion", "node", "tree", "count", "other"]
    text = _line("ADDED", _object("other", node="n", tree="t", count=1, other=1))
    field = draw(st.sampled_from(fields)).encode()
    begin = text.index(b'"%b": ' % field) + len(field) + 4
    end = min(text.index(mark, begin) for mark in (b",", b"}") if mark in text[begin:])
    return text[:begin] + draw(ODD) + text[end:]


bad_lines = st.one_of(
    st.binary(max_size=60),
    mutated(_line("ADDED", _object("other", node="n"))),
    mutated(_line("BOOKMARK", BOOKMARK)),
    mutated(
        _line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "gone"})
    ),
    wrong_types(),
    odd_inside(),
    ODD,
)


class Server:
    """Answers each request with what was said for it: once with the bad bodies, then well."""

    def __init__(self, *, streaming: list[bytes] | None, page: bytes) -> None:
        self._streaming = streaming
        self._page = page
        self._asked = 0
        #: Set when the watches that are open may end.
        self.over = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list or a watch."""
        if "watch" not in request.query:
            self._asked += 1
            return web.Response(body=self._page if self._asked == 1 else _page())
        if "sendInitialEvents" not in request.query:
            return await self._go_on(request, [_line("ADDED", _good(3))])
        if self._streaming is None:
            return web.Response(status=422)
        self._asked += 1
        if self._asked == 1:
            return web.Response(body=b"\n".join(self._streaming) + b"\n")
        return await self._go_on(request, CLEAN)

    async def _go_on(self, request: web.Request, lines: list[bytes]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\n".join(lines) + b"\n")
        await self.over.wait()
        return response


def _page(*items: bytes) -> bytes:
    told = b", ".join([json.dumps(_good(number)).encode() for number in range(3)] + [*items])
    return b'{"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [%b]}' % told


class Reader:
    """Waits until the good objects are there as they should be."""

    def __init__(self) -> None:
        self.known: dict[Key, Any] = {}
        self.complete = asyncio.Event()

    def on_change(self, change: Change[Any]) -> None:
        """Take a change."""
        self.known[change.key] = change.new
        if EXPECTED.items() <= self.known.items():
            self.complete.set()

    def on_synced(self) -> None:
        """Nothing to do."""


class _Tracebacks(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.told: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.told.append(record)


@contextmanager
def no_traceback() -> Iterator[None]:
    """Fail when anything logs an exception with its stack."""
    handler = _Tracebacks(logging.DEBUG)
    log = logging.getLogger("kcm_host")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert not handler.told, logging.Formatter().format(handler.told[0])


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    """Serve on loopback; gives the address."""
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(url: str, folder: Path) -> Path:
    """Write a kubeconfig for a server."""
    path = folder / "config"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(json.dumps(content))
    return path


async def follow(server: Server) -> None:
    """Follow the server until all good objects are known; fail when the stream ends."""
    reader, feed = Reader(), SharedInformer(POD)
    feed.add_event_handler(Pod, reader)
    with tempfile.TemporaryDirectory() as folder, no_traceback():
        async with serving(server.answer) as url:
            connection = connect(str(kubeconfig(url, Path(folder))), environ={})
            async with Client(connection, lambda _: None) as client:
                clock = asyncio.get_running_loop().time
                reflector = Reflector(
                    ListWatchOptions(POD), client, feed, user_agent="fuzz", clock=clock
                )
                stream = asyncio.create_task(reflector.run())
                known = asyncio.create_task(reader.complete.wait())
                ends = {stream, known}
                try:
                    await asyncio.wait(
                        ends, timeout=HANG_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                    assert not stream.done()
                    assert known.done(), f"the stream hangs: {reflector.phase} {reflector.error}"
                finally:
                    server.over.set()
                    for task in ends:
                        task.cancel()
                    await asyncio.wait(ends)


@pytest.fixture(scope="module", autouse=True)
def short_waits() -> Iterator[None]:
    """Let the waits between two tries be short: their length is no matter here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retries, "BASE_SECONDS", 0.001)
        patched.setattr(retries, "MAX_SECONDS", 0.002)
        yield


@given(st.lists(bad_lines, max_size=3), st.lists(bad_lines, min_size=1, max_size=3))
async def test_any_lines_of_a_watch(early: list[bytes], later: list[bytes]) -> None:
    """Whatever comes among initial objects and events, the good ones are known (F-1, F-25)."""
    good = [_line("ADDED", _good(number)) for number in range(3)]
    lines = [good[0], *early, good[1], CLEAN[-1], *later, good[2]]
    with one_input("watch lines"):
        await follow(Server(streaming=lines, page=_page()))


bad_pages = st.one_of(
    st.lists(bad_lines, min_size=1, max_size=3).map(lambda items: _page(*items)),
    st.integers(0, 200).map(lambda left: _page()[:left]),
    ODD,
)


@given(bad_pages)
async def test_any_page_of_a_list(page: bytes) -> None:
    """Whatever a page holds, the good objects are known, at last from the next list (F-1)."""
    with one_input("list pages"):
        await follow(Server(streaming=None, page=page))
