"""The recorder sends in the background, one Event at a time, and never blocks a sync."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from host.reconcile.worker_rig import NODE
from logged import pairs_of

from kcm_host.api.errors import ApiError, Conflict, NotFound, Unreachable
from kcm_host.api.kinds import Key
from kcm_host.api.writes import Write, WriteResponse
from kcm_host.reconcile.event_recorder import EventRecorder

pytestmark = pytest.mark.virtual_time

REFUSED = ApiError("events is forbidden", status=403, reason="Forbidden")


class Server:
    """A `Sender` that records the time of each write, and responds as a test says."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.times: list[float] = []
        self.answer: Callable[[Write], None] = lambda write: None
        self.seconds = 0.0

    async def send(self, write: Write) -> WriteResponse:
        """Take `seconds`, then answer."""
        self.writes.append(write)
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        self.answer(write)
        return WriteResponse(resource_version="8")

    @property
    def verbs(self) -> list[str]:
        """What was sent, in order."""
        return [write.verb for write in self.writes]

    def refuse(self, *errors: Exception | None) -> None:
        """Answer with these errors one after the other, then well; None is a good answer."""
        answers = iter(errors)

        def answer(_: Write) -> None:
            error = next(answers, None)
            if error is not None:
                raise error

        self.answer = answer


@pytest.fixture
async def recorder(server: Server) -> EventRecorder:
    """Return a recorder on the loop's clock whose first wait is a half of the longest."""
    loop = asyncio.get_running_loop()
    return EventRecorder(
        server, clock=loop.time, wall_nanoseconds=lambda: int(loop.time() * 1e9), jitter=lambda: 0.5
    )


def record(recorder: EventRecorder, message: str = "full", **fields: Any) -> None:
    """Record a warning about a node."""
    usual = {"uid": "u-1", "version": "7", "reason": "Full", "warning": True, "component": "acme"}
    recorder.record(NODE, fields.pop("key", Key("n1")), **{**usual, "message": message, **fields})


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[asyncio.Task[None]]:
    """Run a recorder for as long as the test needs it."""
    task = asyncio.create_task(recorder.run())
    yield task
    task.cancel()
    await asyncio.wait([task])


async def run(recorder: EventRecorder, *, seconds: float) -> None:
    """Run a recorder for so long."""
    async with running(recorder):
        await asyncio.sleep(seconds)


@pytest.fixture
async def server() -> Server:
    """A server that takes everything at once."""
    return Server()


async def test_events_are_recorded_before_the_recorder_runs(
    server: Server, recorder: EventRecorder
) -> None:
    """What is recorded before the recorder runs is sent when it does (IQ-120)."""
    record(recorder)
    record(recorder)
    assert server.writes == []
    await run(recorder, seconds=1)
    assert server.verbs == ["create", "patch"]
    assert orjson.loads(server.writes[1].body)["count"] == 2


async def test_one_event_at_a_time(server: Server, recorder: EventRecorder) -> None:
    """An Event that takes its time delays those behind it (IQ-126)."""
    server.seconds = 3.0
    for name in "abc":
        record(recorder, key=Key(name))
    await run(recorder, seconds=20)
    assert [time - server.times[0] for time in server.times] == [0.0, 3.0, 6.0]


async def test_a_thousand_wait_and_no_more(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The 1001st is dropped with one log line; once there is room, recording goes on (IQ-120)."""
    for number in range(1010):
        record(recorder, key=Key(f"n{number}"))
    assert [one.getMessage() for one in caplog.records] == ["events dropped: queue full"]
    async with running(recorder):
        await asyncio.sleep(1)
        assert len(server.writes) == 1000
        record(recorder, key=Key("later"))
        await asyncio.sleep(1)
    assert server.writes[-1].key.name.startswith("later.")


@pytest.mark.parametrize(
    "error", [REFUSED, ApiError("broken", status=500)], ids=["forbidden", "server error"]
)
async def test_a_refused_event_is_not_retried(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture, error: ApiError
) -> None:
    """No second try, the next Event goes out, and the cause is logged (IQ-126, IQ-T25)."""
    server.refuse(error)
    record(recorder)
    record(recorder, key=Key("n2"))
    await run(recorder, seconds=100)
    assert [write.key.name.partition(".")[0] for write in server.writes] == ["n1", "n2"]
    (line,) = caplog.records
    assert line.getMessage() == "event not sent"
    assert pairs_of(line)["error"] == str(error)


async def test_a_refusal_is_one_log_line_and_a_count(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """A right that is missing fills no log, however many Events there are (F-82)."""
    server.refuse(*[REFUSED] * 20)
    for number in range(20):
        record(recorder, key=Key(f"n{number}"))
    await run(recorder, seconds=1)
    assert len(server.writes) == 20
    assert [pairs_of(one).get("times") for one in caplog.records] == [None, "19"]


async def test_an_event_that_exists_already(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """A create whose answer was lost finds its own Event, which is no reason to complain."""
    server.refuse(Unreachable("cut"), Conflict("exists", status=409, reason="AlreadyExists"))
    record(recorder)
    await run(recorder, seconds=100)
    assert server.verbs == ["create", "create"]
    assert server.writes[0] == server.writes[1]
    assert caplog.records == []


async def test_an_event_that_has_ended_is_made_anew(
    server: Server, recorder: EventRecorder
) -> None:
    """A patch that finds nothing becomes a create with the whole count (IQ-126)."""
    server.refuse(None, NotFound("gone", status=404, reason="NotFound"))
    record(recorder)
    record(recorder)
    await run(recorder, seconds=1)
    assert server.verbs == ["create", "patch", "create"]
    assert server.writes[2].key == server.writes[0].key
    assert orjson.loads(server.writes[2].body)["count"] == 2


async def test_without_a_response_it_is_retried(server: Server, recorder: EventRecorder) -> None:
    """The first wait is a random part of 10 s, the others are 10 s each (IQ-126)."""
    server.refuse(*[Unreachable("no answer")] * 3)
    record(recorder)
    await run(recorder, seconds=100)
    assert [time - server.times[0] for time in server.times] == [0.0, 5.0, 15.0, 25.0]


async def test_retries_end_after_twelve_attempts(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """The thirteenth is not made; the Event behind it has its turn (IQ-126)."""
    server.refuse(*[Unreachable("no answer")] * 12)
    record(recorder)
    record(recorder, key=Key("n2"))
    await run(recorder, seconds=1000)
    names = [write.key.name.partition(".")[0] for write in server.writes]
    assert names == ["n1"] * 12 + ["n2"]
    assert [one.getMessage() for one in caplog.records] == ["event not sent"]


@pytest.mark.parametrize("message", [object(), "\ud800"], ids=["no text", "half a character"])
async def test_an_event_that_cannot_be_encoded_stops_no_other(
    server: Server, recorder: EventRecorder, caplog: pytest.LogCaptureFixture, message: Any
) -> None:
    """Recording does not fail, the next Event goes out, and the cause is logged (IQ-120)."""
    record(recorder, message)
    record(recorder, "full")
    await run(recorder, seconds=1)
    assert [orjson.loads(write.body)["message"] for write in server.writes] == ["full"]
    assert [one.getMessage() for one in caplog.records] == ["event not sent"]


@pytest.mark.parametrize("trouble", [True, False], ids=["while it waits", "while idle"])
async def test_cancellation_ends_retries_and_drops_the_rest(
    server: Server, recorder: EventRecorder, trouble: bool
) -> None:
    """Cancelled, it sends nothing more, and what is recorded later is dropped (IQ-127)."""
    if trouble:
        server.refuse(*[Unreachable("no answer")] * 5)
    record(recorder)
    async with running(recorder) as task:
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        record(recorder, key=Key("n2"))
        await asyncio.sleep(100)
    assert len(server.writes) == 1
