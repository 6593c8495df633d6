"""Each sync is a span that links to the earlier sync it comes from, and holds its writes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, B, RecordingSender, Rig, scripted
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, Done, Later, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Writer, WriteResponse
from kcm_host.observe.otel import OtelTracing

pytestmark = pytest.mark.virtual_time


class Spans:
    """Tracing whose spans stay in memory."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False, **options)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = OtelTracing(provider, version="0", stop=lambda seconds: None)

    def named(self, name: str) -> Sequence[ReadableSpan]:
        """Return the spans of that name, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
async def spans(rig: Rig) -> Spans:
    """Switch tracing on."""
    spans = Spans()
    rig.tracing = spans.tracing
    return spans


def linked(span: ReadableSpan) -> list[int]:
    """Return the ids of the spans that one links to."""
    return [link.context.span_id for link in span.links]


def own_id(span: ReadableSpan) -> int:
    """Return a span's own id."""
    assert span.context is not None
    return int(span.context.span_id)


async def patching(key: Key, view: View, writer: Writer) -> Outcome:
    """Write once."""
    await writer.patch(NODE, key, {})
    return Done()


@pytest.mark.parametrize("again", [ValueError("no"), Later(timedelta(seconds=1))], ids=type)
async def test_a_requeued_sync_links_to_the_sync_before(
    rig: Rig, spans: Spans, again: Outcome | Exception
) -> None:
    """After a failure as after `Later`, the next sync of the key links to the one before."""
    await rig.sync_a(scripted(again, Done()), seconds=10)
    first, second = spans.named("sync ttl")
    assert linked(first) == []
    assert linked(second) == [own_id(first)]


async def test_the_event_of_a_write_links_to_its_sync(rig: Rig, spans: Spans) -> None:
    """An event of the very version that a write led to links its sync to the writing one."""
    rig.queue.add(A, CAUSE)
    rig.queue.add(
        B,
        Cause(reason="updated", received=0.0, kind="nodes", object="a", resource_version="8"),
        after=1,
    )
    await rig.run(patching, seconds=10)
    first, second = spans.named("sync ttl")
    assert linked(second) == [own_id(first)]


@pytest.mark.parametrize(
    "cause",
    [
        Cause(reason="updated", received=0.0, kind="nodes", object="a", resource_version="9"),
        Cause(reason="updated", received=0.0, kind="nodes", object="b", resource_version="8"),
        Cause(reason="updated", received=0.0, kind="pods", object="a", resource_version="8"),
    ],
    ids=["version", "object", "kind"],
)
async def test_the_write_of_another_client_links_to_nothing(
    rig: Rig, spans: Spans, cause: Cause
) -> None:
    """Kind, object and version all have to be those of the write."""
    rig.queue.add(Key("later"), cause, after=1)
    await rig.sync_a(patching, seconds=10)
    assert [linked(span) for span in spans.named("sync ttl")] == [[], []]


async def test_a_span_has_the_result_of_its_sync(rig: Rig, spans: Spans) -> None:
    """Outcome, attempt, causes and reads are its attributes; causes are events of it."""
    await rig.sync_a(scripted(ValueError("no"), Done()), seconds=10)
    first, second = spans.named("sync ttl")
    told = [dict(span.attributes or {}) for span in (first, second)]
    assert [one["kcm.outcome"] for one in told] == ["error", "done"]
    assert [one["kcm.attempt"] for one in told] == [1, 2]
    assert told[0]["kcm.retry_after_seconds"] == 0.005
    assert [event.name for event in first.events] == ["updated"]
    assert first.status.description == "ValueError: no"


async def test_a_write_is_a_span_inside_its_sync(rig: Rig, spans: Spans) -> None:
    """Its parent is the sync; it has the status of the response and the number of attempts."""
    rig.sender = RecordingSender(
        lambda write: WriteResponse(resource_version="8", uid="u1", attempts=3)
    )
    await rig.sync_a(patching, seconds=1)
    (sync,), (write,) = spans.named("sync ttl"), spans.named("patch nodes")
    assert write.parent is not None
    assert write.parent.span_id == own_id(sync)
    attributes = dict(write.attributes or {})
    assert attributes["kcm.object"] == "a"
    assert (attributes["http.response.status_code"], attributes["kcm.attempts"]) == (200, 3)


async def test_spans_that_are_not_sampled_are_linked_by_none(rig: Rig) -> None:
    """Without sampling no cause has a link, which would have no target."""
    rig.tracing = Spans(sampler=ALWAYS_OFF).tracing
    records = await rig.sync_a(scripted(ValueError("no"), Done()), seconds=10)
    assert [cause.link for record in records for cause in record.causes] == [None, None]


async def test_tracing_changes_no_record(rig: Rig, spans: Spans) -> None:
    """Records are the same with tracing as without: causes as they were queued."""
    records = await rig.sync_a(scripted(Done()), seconds=1)
    assert records[0].causes == (CAUSE,)
