"""The spans of syncs and writes, as a collector receives them."""

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from host.observe.collector import Collector
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from kcm_host.api.errors import Conflict
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.sync import Cause, SyncOutcome
from kcm_host.api.writes import Write
from kcm_host.observe.logging import JsonFormatter, TextFormatter
from kcm_host.observe.tracing import SyncSpan, Tracing, start_tracing

NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
PATCH = Write(kind=NODE, key=Key("n1"), verb="patch", body=b"{}")
UPDATED = Cause(reason="updated", received=0.0, kind="Node", object="n1", resource_version="1")
ERROR = 2
CLIENT = 3


@contextmanager
def traced(collector: Collector, sample_ratio: float = 1.0) -> Iterator[Tracing]:
    """Trace; at the end the collector has all spans."""
    tracing = start_tracing(
        "otlp", endpoint=collector.url, sample_ratio=sample_ratio, version="1.2.3"
    )
    try:
        yield tracing
    finally:
        tracing.stop(20)


def begin(tracing: Tracing, *, causes: tuple[Cause, ...] = (), merged: int = 1) -> SyncSpan:
    """Begin the span of a sync of ttl."""
    return tracing.sync(
        "ttl", Key("n1"), attempt=2, causes=causes, merged=merged, queued_seconds=0.5
    )


def one_sync(collector: Collector, **options: Any) -> Span:
    """Return the span of a sync that was traced."""
    with traced(collector) as tracing, begin(tracing, **options):
        pass
    return collector.spans["sync ttl"]


def values(holder: Any) -> dict[str, object]:
    """Return the attributes of a span, event or resource as plain values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in holder.attributes}


def test_the_span_of_a_sync(collector: Collector) -> None:
    """A sync is one root span with its key, attempt, waiting time, reads and outcome."""
    with traced(collector) as tracing, begin(tracing) as sync:
        sync.finish("later", reads=3, retry_after_seconds=60.0)
    span = collector.spans["sync ttl"]
    assert values(span) == {
        "kcm.controller": "ttl",
        "kcm.key": "n1",
        "kcm.attempt": 2,
        "kcm.causes": 1,
        "kcm.queued_seconds": 0.5,
        "kcm.reads": 3,
        "kcm.outcome": "later",
        "kcm.retry_after_seconds": 60.0,
    }
    assert span.parent_span_id == b""
    assert span.status.code != ERROR
    assert collector.paths == ["/v1/traces"]


def test_resource_names_the_host(collector: Collector) -> None:
    """Spans belong to the service kcm-host of this version."""
    one_sync(collector)
    [request] = collector.requests
    resource = values(request.resource_spans[0].resource)
    assert resource["service.name"] == "kcm-host"
    assert resource["service.version"] == "1.2.3"


def test_causes_are_events_at_the_time_they_came(collector: Collector) -> None:
    """A cause is an event with kind, key and version, at the wall-clock time of its receipt."""
    cause = Cause(
        reason="updated",
        received=time.monotonic() - 5.0,
        kind="Node",
        object="n1",
        resource_version="77",
    )
    expected = time.time() - 5.0
    [event] = one_sync(collector, causes=(cause,)).events
    assert event.name == "updated"
    assert values(event) == {"kcm.kind": "Node", "kcm.object": "n1", "kcm.resource_version": "77"}
    assert event.time_unix_nano / 1e9 == pytest.approx(expected, abs=1.0)


def test_many_causes_end_in_a_count(collector: Collector) -> None:
    """Sixteen causes are shown; one event more says how many others there were."""
    causes = tuple(
        Cause(reason="updated", received=0.0, kind="Node", object=f"n{i}", resource_version="1")
        for i in range(16)
    )
    events = one_sync(collector, causes=causes, merged=40).events
    assert len(events) == 17
    assert events[16].name == "more causes"
    assert values(events[16]) == {"kcm.causes": 24}


def test_retry_links_to_the_sync_before_it(collector: Collector) -> None:
    """A cause with a link leads to the earlier sync; the same link twice is one."""
    with traced(collector) as tracing:
        with begin(tracing) as first:
            pass
        retry = Cause(reason="retry", received=0.0, link=first.context)
        timer = Cause(reason="timer", received=0.0, link=first.context)
        with tracing.sync(
            "acme", Key("n1"), attempt=1, causes=(retry, timer), merged=2, queued_seconds=0.0
        ):
            pass
    before, after = collector.spans["sync ttl"], collector.spans["sync acme"]
    [link] = after.links
    assert (link.trace_id, link.span_id) == (before.trace_id, before.span_id)
    assert (int.from_bytes(link.trace_id), int.from_bytes(link.span_id)) == first.context
    assert after.trace_id != before.trace_id


@pytest.mark.parametrize("outcome", ["error", "terminal"])
def test_failed_sync_is_an_error_with_its_message(
    collector: Collector, outcome: SyncOutcome
) -> None:
    """Whether it is retried or has failed for good: the status is ERROR, with the message."""
    with traced(collector) as tracing, begin(tracing) as sync:
        sync.finish(outcome, reads=0, error="KeyError: 'zone'")
    status = collector.spans["sync ttl"].status
    assert (status.code, status.message) == (ERROR, "KeyError: 'zone'")


def test_cancelled_sync_is_no_error(collector: Collector) -> None:
    """A sync that is cancelled at the stop ends its span without blame."""
    with traced(collector) as tracing, suppress(asyncio.CancelledError), begin(tracing) as sync:
        sync.finish("cancelled", reads=0)
        raise asyncio.CancelledError
    span = collector.spans["sync ttl"]
    assert span.status.code != ERROR
    assert values(span)["kcm.outcome"] == "cancelled"


def test_write_is_a_child_with_its_response(collector: Collector) -> None:
    """A write is a client span below its sync with verb, kind, object, status and attempts."""
    with traced(collector) as tracing, begin(tracing) as sync, sync.write(PATCH) as sent:
        sent.answered(200, attempts=3)
    write = collector.spans["patch nodes"]
    assert write.parent_span_id == collector.spans["sync ttl"].span_id
    assert write.kind == CLIENT
    assert values(write) == {
        "kcm.verb": "patch",
        "kcm.kind": "nodes",
        "kcm.object": "n1",
        "http.response.status_code": 200,
        "kcm.attempts": 3,
    }


def test_refused_write_is_an_error_with_its_status(collector: Collector) -> None:
    """A write that the server refuses has the status of the answer and the message."""
    refused = pytest.raises(Conflict)
    with traced(collector) as tracing, begin(tracing) as sync, refused, sync.write(PATCH):
        raise Conflict("the object has changed", status=409)
    span = collector.spans["patch nodes"]
    assert values(span)["http.response.status_code"] == 409
    assert (span.status.code, span.status.message) == (ERROR, "Conflict: the object has changed")


async def test_span_is_current_in_its_own_task_alone(collector: Collector) -> None:
    """Inside the sync its span is the current one, for its task and not for others."""

    async def sync(tracing: Tracing, gate: asyncio.Barrier) -> bool:
        with begin(tracing) as span:
            await gate.wait()
            current = trace.get_current_span().get_span_context()
            return (current.trace_id, current.span_id) == span.context

    async def both(tracing: Tracing) -> tuple[bool, bool]:
        gate = asyncio.Barrier(2)
        return await asyncio.gather(sync(tracing, gate), sync(tracing, gate))

    tracing = start_tracing("otlp", endpoint=collector.url, version="1.2.3")
    try:
        assert all(await both(tracing))
    finally:
        await asyncio.to_thread(tracing.stop, 20)
    assert not trace.get_current_span().get_span_context().is_valid


def test_unsampled_sync_sends_nothing_and_gives_no_context(collector: Collector) -> None:
    """A sync that is not sampled sends no span, its writes neither, and is no goal for links."""
    with traced(collector, sample_ratio=0.0) as tracing, begin(tracing, causes=(UPDATED,)) as sync:
        with sync.write(PATCH) as sent:
            sent.answered(200)
        sync.finish("done", reads=1)
    assert (collector.spans, sync.context) == ({}, None)


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("", "/v1/traces"),
        ("/", "/v1/traces"),
        ("/tenants/a", "/tenants/a/v1/traces"),
        ("/tenants/a/", "/tenants/a/v1/traces"),
        ("/tenants/a/v1/traces", "/tenants/a/v1/traces"),
        ("/otlp?tenant=a", "/otlp/v1/traces?tenant=a"),
    ],
)
def test_endpoint_is_a_base_url(collector: Collector, path: str, called: str) -> None:
    """The path of the signal is added to whatever path the endpoint has, once (F-90)."""
    tracing = start_tracing("otlp", endpoint=f"{collector.url}{path}", version="1")
    with begin(tracing):
        pass
    tracing.stop(20)
    assert collector.paths == [called]


def test_operators_name_the_service(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard variables for the resource win over what the host says of itself (F-90)."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "quota-west")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=west,service.name=other")

    one_sync(collector)
    [request] = collector.requests
    resource = values(request.resource_spans[0].resource)
    assert resource["service.name"] == "quota-west"
    assert resource["k8s.cluster.name"] == "west"
    assert resource["service.version"] == "1.2.3"


def test_log_lines_of_a_sync_name_its_span(collector: Collector) -> None:
    """From a line of the log to its trace: in a sync, in a write, and nowhere else (F-90)."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("kcm_host.test.spans")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.handlers[:] = [handler]

    with traced(collector) as tracing:
        log.info("before")
        with begin(tracing) as sync:
            log.info("in the sync")
            with sync.write(PATCH):
                log.info("in the write")
            log.info("in the sync")
        log.info("after")
    trace_id = collector.spans["sync ttl"].trace_id.hex()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["event"], one.get("trace_id"), one.get("span_id")) for one in lines] == [
        ("before", None, None),
        ("in the sync", trace_id, collector.spans["sync ttl"].span_id.hex()),
        ("in the write", trace_id, collector.spans["patch nodes"].span_id.hex()),
        ("in the sync", trace_id, collector.spans["sync ttl"].span_id.hex()),
        ("after", None, None),
    ]


def test_log_lines_of_a_sync_that_is_not_sampled_name_none(collector: Collector) -> None:
    """An id that leads nowhere is no help (F-90)."""
    with traced(collector, sample_ratio=0.0) as tracing, begin(tracing):
        record = logging.LogRecord("kcm_host", logging.INFO, "", 0, "event", None, None)
        shown = TextFormatter().format(record)
    assert shown.endswith("INFO  event")
