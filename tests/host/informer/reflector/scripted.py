"""A reflector whose server answers by a script, in memory and on a virtual clock."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
from generated_watch import GeneratedWatch

from kcm_host.api.kinds import Kind
from kcm_host.informer import decoder
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.informer.reflector import Reflector

POD = Kind(group="", version="v1", name="Pod", resource="pods")
PODS = ListWatchOptions(POD)
#: Longer than a stream has to last to be no early end.
LASTING = 1.5
END = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True)
class Stream:
    """A watch that says its lines, waits the seconds that stand between them, and ends."""

    lines: tuple[bytes | float, ...] = ()
    #: Raised at its end; None: it ends without an error.
    error: Exception | None = None


@dataclass(frozen=True)
class Page:
    """A page of a list."""

    body: bytes


Answer = Stream | Page | Exception


def pod(name: str, version: str = "", *, kind: str = "Pod") -> dict[str, Any]:
    """Return a pod as a server sends it."""
    return {"kind": kind, "metadata": {"name": name, "resourceVersion": version}}


def event(sort: str, told: dict[str, Any]) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": sort, "object": told}).encode()


def added(name: str, version: str = "") -> bytes:
    """Return the line that tells of a new pod."""
    return event("ADDED", pod(name, version))


def bookmark(version: str, *, ends_list: bool = False) -> bytes:
    """Return a bookmark, also the one that ends the initial events."""
    meta = {"resourceVersion": version, **({"annotations": END} if ends_list else {})}
    return event("BOOKMARK", {"kind": "Pod", "metadata": meta})


def failure(code: int, reason: str = "", message: str = "told by a script") -> bytes:
    """Return an ERROR event."""
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": message})


def page(*items: dict[str, Any], version: str = "5", token: str = "") -> Page:
    """Return a page of a list."""
    meta = {"resourceVersion": version, "continue": token}
    return Page(json.dumps({"kind": "PodList", "metadata": meta, "items": items}).encode())


def listed(*names: str, version: str = "5") -> tuple[bytes, ...]:
    """Return the lines of a whole streaming list."""
    return (*map(added, names), bookmark(version, ends_list=True))


@dataclass
class Request:
    """What was asked, and how many seconds after the start."""

    at: float
    path: str
    user_agent: str
    accept: str
    query: dict[str, str]

    @property
    def sort(self) -> str:
        """`stream VERSION`, `watch VERSION` or `list`: what the reflector has decided to do."""
        if "watch" not in self.query:
            return "list"
        sort = "stream" if "sendInitialEvents" in self.query else "watch"
        return f"{sort} {self.query.get('resourceVersion', '')}".strip()


class ScriptedClient:
    """Stands for `Client`: the answers in their order; when there are no more, silence."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self.requests: list[Request] = []
        self.open_watches = 0
        self.exhausted = asyncio.Event()

    @asynccontextmanager
    async def watch(
        self, path: str, *, user_agent: str, query: Any, accept: str
    ) -> AsyncIterator[GeneratedWatch]:
        """See `Client.watch`."""
        answer = await self._next(path, user_agent, accept, query)
        assert isinstance(answer, Stream), f"a watch was answered with {answer}"
        self.open_watches += 1
        try:
            yield GeneratedWatch(self._lines(answer))
        finally:
            self.open_watches -= 1

    async def call(
        self, method: str, path: str, *, verb: str, user_agent: str, query: Any, accept: str
    ) -> bytes:
        """See `Client.call`."""
        assert (method, verb) == ("GET", "list")
        answer = await self._next(path, user_agent, accept, query)
        assert isinstance(answer, Page), f"a list was answered with {answer}"
        return answer.body

    async def _next(self, path: str, user_agent: str, accept: str, query: Any) -> Answer:
        at = self._clock() - self._started
        self.requests.append(Request(round(at, 3), path, user_agent, accept, dict(query)))
        if not self._answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _lines(self, stream: Stream) -> AsyncIterator[bytes]:
        for each in stream.lines:
            if isinstance(each, float):
                await asyncio.sleep(each)
            else:
                yield each
        if stream.error is not None:
            raise stream.error


class RecordingSink:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        #: Raised by the next event, once.
        self.trouble: Exception | None = None
        #: How often the loop may turn while a set is put in place.
        self.pauses = 0

    def init(self) -> None:
        """See `Sink`."""
        self.calls.append("begin")

    def init_apply(self, event_type: str, line: bytes, partial: decoder.PartialObject) -> None:
        """See `Sink`."""
        self.calls.append(f"gather {self._words(event_type, line, partial)}")

    def init_apply_item(self, item: msgspec.Raw) -> None:
        """See `Sink`."""
        self.calls.append(f"item {json.loads(bytes(item))['metadata']['name']}")

    def init_done(self) -> Iterator[None]:
        """See `Sink`."""
        for _ in range(self.pauses):
            yield
        self.calls.append("done")

    def apply(self, event_type: str, line: bytes, partial: decoder.PartialObject) -> None:
        """See `Sink`."""
        self.calls.append(self._words(event_type, line, partial))
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble

    def _words(self, event_type: str, line: bytes, partial: decoder.PartialObject) -> str:
        assert partial.metadata is not None
        assert json.loads(line)["object"]["metadata"]["name"] == partial.metadata.name
        return f"{event_type} {partial.metadata.name}"


@dataclass
class ScriptedRun:
    """What a reflector did until its server had no more answers."""

    client: ScriptedClient
    reflector: Reflector
    sink: RecordingSink = field(default_factory=RecordingSink)

    @property
    def requests_sent(self) -> list[str]:
        """The requests, each as what it was for; the last one got no answer."""
        return [each.sort for each in self.client.requests]

    @property
    def waits(self) -> list[float]:
        """The seconds between each two requests."""
        times = [each.at for each in self.client.requests]
        return [round(later - earlier, 3) for earlier, later in pairwise(times)]


async def run_script(
    *answers: Answer,
    options: ListWatchOptions = PODS,
    prepare: Callable[[RecordingSink], None] = lambda _: None,
    silent_seconds: float = 0.0,
) -> ScriptedRun:
    """Run a reflector until all answers are used up and some silence has passed."""
    client, sink = ScriptedClient(answers), RecordingSink()
    prepare(sink)
    loop = asyncio.get_running_loop()
    reflector = Reflector(options, client, sink, user_agent="me", clock=loop.time)  # type: ignore[arg-type]
    task = asyncio.create_task(reflector.run())
    ended = asyncio.create_task(client.exhausted.wait())
    await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), f"the reflector ended: {task}"
    await asyncio.sleep(silent_seconds)
    task.cancel()
    await asyncio.wait({task})
    assert client.open_watches == 0
    return ScriptedRun(client, reflector, sink)
