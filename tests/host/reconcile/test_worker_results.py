"""How a sync ends decides when its key runs again, and observers are told."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, RecordingSender, Rig, failing, scripted
from logged import pairs_of

from kcm_host.api.errors import ApiError, Conflict, UndeclaredRead, Unreachable
from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, Done, Later, Outcome, Terminal
from kcm_host.api.watch import View
from kcm_host.api.writes import Writer
from kcm_host.informer.store import Entry, Store

pytestmark = pytest.mark.virtual_time


class Node(msgspec.Struct, frozen=True):
    """A node of which one field is read."""

    ttl: str = ""


async def test_done_is_the_end_of_it(rig: Rig) -> None:
    """A key whose sync is done is not run again (IQ-101)."""
    records = await rig.sync_a(scripted(Done()), seconds=10_000)
    assert [(record.key, record.outcome) for record in records] == [(A, "done")]
    assert records[0].retry_after_seconds is None
    assert records[0].error == ""


async def test_later_runs_again_after_its_time(rig: Rig) -> None:
    """`Later` brings the key back after exactly that time, with a timer as the cause."""
    records = await rig.sync_a(scripted(Later(timedelta(minutes=5)), Done()), seconds=10_000)
    assert [record.outcome for record in records] == ["later", "done"]
    assert rig.syncs.times == [0, 300]
    assert records[0].retry_after_seconds == 300
    assert [cause.reason for cause in records[1].causes] == ["timer"]


async def test_a_terminal_failure_is_not_retried(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """The key waits for its next change, its failures are forgotten, and the log has an error."""
    steps = scripted(ValueError("no"), Terminal("spec.size is 0; give a size"), Done())
    records = await rig.sync_a(steps, seconds=10_000)
    assert [(one.outcome, one.error) for one in records] == [
        ("error", "ValueError: no"),
        ("terminal", "spec.size is 0; give a size"),
    ]
    assert records[1].retry_after_seconds is None
    assert rig.queue.failures(A) == 0
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.message == "sync failed"
    assert pairs_of(line) == {
        "controller": "ttl",
        "key": "a",
        "error": "spec.size is 0; give a size",
        "retry_in": "never",
    }


async def test_terminal_failures_of_many_keys_are_one_line(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Many keys that fail for good make one line and a count, as with other failures (F-82)."""
    for number in range(400):
        rig.queue.add(Key(f"k{number}"), CAUSE)
    await rig.run(scripted(*[Terminal("bad")] * 400), seconds=11)
    lines = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [line.message for line in lines] == ["sync failed", "sync failed, again"]
    assert pairs_of(lines[1])["times"] == "399"


async def test_an_exception_is_a_retry(rig: Rig) -> None:
    """The key runs again after 5 ms, and the record says what was raised (IQ-101)."""
    records = await rig.sync_a(scripted(KeyError("ttl"), Done()), seconds=10)
    assert [record.outcome for record in records] == ["error", "done"]
    assert records[0].error == "KeyError: 'ttl'"
    assert records[0].retry_after_seconds == 0.005
    assert rig.syncs.times == [0, 0.005]
    assert [cause.reason for cause in records[1].causes] == ["retry"]


@pytest.mark.parametrize(
    "error",
    [
        Conflict("patch /api/v1/nodes/a: 409", status=409),
        ApiError("patch /api/v1/nodes/a: 500", status=500),
        Unreachable("patch /api/v1/nodes/a: no answer"),
        UndeclaredRead("ttl asked for 'pods' as Pod"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_of_the_host_are_told_in_their_own_words(rig: Rig, error: Exception) -> None:
    """What the host raises into a sync is told without the name of a class."""
    records = await rig.sync_a(scripted(error, Done()), seconds=10)
    assert (records[0].outcome, records[0].error) == ("error", str(error))


async def test_a_failure_is_logged_with_what_comes_next(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning a failure names controller, key, error and wait, without a traceback."""
    await rig.sync_a(scripted(ValueError("no"), Done()), seconds=10)
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.message == "sync failed"
    assert record.exc_info is None
    assert pairs_of(record) == {
        "controller": "ttl",
        "key": "a",
        "error": "ValueError: no",
        "retry_in": "0.005s",
    }


async def endless(key: Key, view: View, writer: Writer) -> Outcome:
    """Wait for what never comes."""
    await asyncio.Event().wait()
    return Done()


async def test_a_sync_without_end_is_ended_after_a_minute(rig: Rig) -> None:
    """After 60 s it is cancelled, told as a time-out, and retried like a failure."""
    (record,) = await rig.sync_a(endless, seconds=100)
    assert rig.syncs.times[0] == 60
    assert (record.outcome, record.error) == ("timeout", "no end after 60 s")
    assert record.retry_after_seconds == 0.005
    assert rig.queue.failures(A) == 1


async def test_a_sync_of_less_than_a_minute_is_left_alone(rig: Rig) -> None:
    """A slow sync that ends in time is done (limit of `kcm_sync`)."""

    async def slow(key: Key, view: View, writer: Writer) -> Outcome:
        await asyncio.sleep(59.9)
        return Done()

    records = await rig.sync_a(slow, seconds=100)
    assert [record.outcome for record in records] == ["done"]


async def test_a_time_limit_of_the_plugins_own_is_an_error(rig: Rig) -> None:
    """A `TimeoutError` that the plugin brought about is not told as the host's limit."""

    async def hasty(key: Key, view: View, writer: Writer) -> Outcome:
        async with asyncio.timeout(2):
            await asyncio.Event().wait()
        return Done()

    rig.queue.add(A, CAUSE)
    async with rig.working(hasty):
        await asyncio.sleep(3)
        (record, *_) = rig.syncs.records
    assert (record.outcome, record.error) == ("error", "TimeoutError: ")


async def test_a_cancelled_sync_is_told_and_not_retried(rig: Rig) -> None:
    """Cancelling a worker ends its sync; the key is given back and not queued (H-61)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(endless) as workers:
        await asyncio.sleep(1)
        (worker,) = workers.tasks
        await workers.cancel()
        assert worker.cancelled()
    (record,) = rig.syncs.records
    assert (record.outcome, record.error, record.retry_after_seconds) == ("cancelled", "", None)
    state = rig.queue.state()
    assert (state.processing, state.depth, state.waiting) == (0, 0, 0)


async def test_a_record_tells_the_whole_sync(rig: Rig) -> None:
    """Controller, key, causes, waiting time, reads, writes and attempt are all in the record."""
    store: Store[Node] = Store(NODE)
    store.put(A, Entry(Node("30"), "u1", "7"))
    rig.stores = {(NODE, Node): store}

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        node = view.of(NODE, Node).get(key.name)
        assert node == Node("30")
        await writer.patch(NODE, key, {"metadata": {}})
        return Done()

    causes = [
        Cause(reason="added", received=0.0, kind="nodes", object="a", resource_version="7"),
        Cause(reason="updated", received=0.0, kind="nodes", object="a", resource_version="8"),
    ]
    for cause in causes:
        rig.queue.add(A, cause)
    await asyncio.sleep(4)
    (record,) = await rig.run(sync, seconds=10)
    assert (record.controller, record.key, record.attempt) == ("ttl", A, 1)
    assert (record.causes, record.merged) == (tuple(causes), 2)
    assert record.queued_seconds == 4
    assert record.reads == 1
    (write,) = record.writes
    assert (write.verb, write.kind, write.object, write.status) == ("patch", "nodes", "a", 200)


@pytest.mark.parametrize(
    ("error", "status"), [(Conflict("409", status=409), 409), (Unreachable("cut"), 0)]
)
async def test_writes_of_a_failed_sync_are_told_too(
    rig: Rig, error: Exception, status: int
) -> None:
    """A write that was refused is in the record with its status, one without answer with 0."""

    async def sync(key: Key, view: View, writer: Writer) -> Outcome:
        await writer.patch(NODE, key, {})
        return Done()

    rig.sender = RecordingSender(failing(error))
    (record, *_) = await rig.sync_a(sync, seconds=0.001)
    assert record.outcome == "error"
    assert [write.status for write in record.writes] == [status]
