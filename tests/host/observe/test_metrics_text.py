"""What a scrape of the metrics holds."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kcm_host.api import SyncOutcome
from kcm_host.api.kinds import Key
from kcm_host.api.sync import SyncRecord, WriteRecord
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.prometheus import render
from kcm_host.observe.states import HostState, RequestRecord

HOST = "127.0.0.1:6443"
#: The labels of the stream of all nodes.
NODES = {
    "group": "",
    "version": "v1",
    "resource": "nodes",
    "namespace": "",
    "label_selector": "",
    "field_selector": "",
}


def sample(metrics: Metrics, state: HostState, series: str, /, **labels: str) -> float:
    """Return the value of one series of a scrape; it must be there exactly once."""
    [value] = [
        one.value
        for family in text_string_to_metric_families(render(metrics, state).decode())
        for one in family.samples
        if one.name == series and one.labels == labels
    ]
    return value


def a_sync(outcome: SyncOutcome = "done", seconds: float = 0.02) -> SyncRecord:
    """Return a sync of ttl with two writes, one of which got no answer."""
    return SyncRecord(
        controller="ttl",
        key=Key("n1"),
        outcome=outcome,
        attempt=1,
        queued_seconds=0.5,
        seconds=seconds,
        causes=(),
        merged=1,
        writes=(
            WriteRecord(verb="patch", kind="nodes", object="n1", status=200, seconds=0.01),
            WriteRecord(verb="patch", kind="nodes", object="n1", status=0, seconds=0.01),
        ),
        reads=2,
    )


def a_request(
    status: int = 200, seconds: float = 0.02, method: str = "PATCH", verb: str = "patch"
) -> RequestRecord:
    """Return one attempt of a request."""
    return RequestRecord(
        method=method,
        verb=verb,
        host=HOST,
        status=status,
        seconds=seconds,
        sent_bytes=100,
        received_bytes=3000,
    )


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("workqueue_depth", {"name": "ttlcontroller"}, 2),
        ("workqueue_adds_total", {"name": "ttlcontroller"}, 7),
        ("workqueue_retries_total", {"name": "ttlcontroller"}, 3),
        ("workqueue_unfinished_work_seconds", {"name": "ttlcontroller"}, 1.5),
        ("workqueue_longest_running_processor_seconds", {"name": "ttlcontroller"}, 1.5),
        ("running_managed_controllers", {"name": "ttl", "manager": "kcm-host"}, 1),
        (
            "informer_store_resource_version",
            {"name": "kcm-host", "group": "", "version": "v1", "resource": "nodes"},
            456789012345678,
        ),
        ("kcm_host_stream_synced", NODES, 1),
        ("kcm_host_stream_objects", NODES, 12),
        ("kcm_host_stream_lists_total", NODES, 1),
        ("kcm_host_stream_undecodable_objects", NODES, 1),
        ("kcm_host_controller_ready", {"controller": "ttl"}, 1),
        ("kcm_host_controller_restarts_total", {"controller": "ttl"}, 0),
        ("kcm_host_ready", {}, 1),
        ("kcm_host_tasks", {}, 7),
    ],
)
def test_state_is_counted(
    name: str, labels: Mapping[str, str], value: float, state: HostState
) -> None:
    """Queues, controllers and streams appear under the reference's names (H-16, H-71, H-74)."""
    assert sample(Metrics(), state, name, **labels) == value


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("kcm_host_syncs_total", {"controller": "ttl", "outcome": "error"}),
        ("kcm_host_syncs_total", {"controller": "ttl", "outcome": "terminal"}),
        ("kcm_host_syncs_total", {"controller": "ttl", "outcome": "timeout"}),
        ("workqueue_queue_duration_seconds_count", {"name": "ttlcontroller"}),
        ("workqueue_work_duration_seconds_bucket", {"name": "ttlcontroller", "le": "+Inf"}),
        ("kcm_host_missed_wakeups_total", {"controller": "ttl"}),
        ("kcm_host_observer_errors_total", {}),
    ],
)
def test_series_exist_before_anything_happened(
    name: str, labels: Mapping[str, str], state: HostState
) -> None:
    """A dashboard finds zeros, not holes, for every enabled controller."""
    assert sample(Metrics(), state, name, **labels) == 0


def test_controller_without_a_queue_counts_as_empty(unready: HostState) -> None:
    """A quarantined controller has a queue of depth 0 and does not run."""
    assert sample(Metrics(), unready, "workqueue_depth", name="acme") == 0
    running = {"name": "acme", "manager": "kcm-host"}
    assert sample(Metrics(), unready, "running_managed_controllers", **running) == 0


def test_syncs_are_counted_by_outcome_and_timed(state: HostState) -> None:
    """
    Each sync counts under its outcome, in both durations of the queue and in our own.

    A bucket includes its upper bound. A missed wake-up counts for itself (F-52).
    """
    metrics = Metrics()
    metrics.on_sync(a_sync("done", seconds=0.1))
    metrics.on_sync(msgspec.structs.replace(a_sync("error", seconds=4.0), missed_wakeup=True))
    ours = {"controller": "ttl"}
    queue = {"name": "ttlcontroller"}
    assert sample(metrics, state, "kcm_host_syncs_total", outcome="done", **ours) == 1
    assert sample(metrics, state, "kcm_host_syncs_total", outcome="error", **ours) == 1
    assert sample(metrics, state, "kcm_host_sync_duration_seconds_sum", **ours) == 4.1
    assert sample(metrics, state, "kcm_host_missed_wakeups_total", **ours) == 1
    assert sample(metrics, state, "workqueue_queue_duration_seconds_sum", **queue) == 1.0
    assert sample(metrics, state, "workqueue_work_duration_seconds_count", **queue) == 2
    low = sample(metrics, state, "workqueue_work_duration_seconds_bucket", le="0.1", **queue)
    assert low == 1


def test_writes_are_counted_by_response(state: HostState) -> None:
    """Each write counts under its status, or `<error>` when no answer came."""
    metrics = Metrics()
    for record in a_sync().writes:
        metrics.on_write("ttl", record)
    write = {"controller": "ttl", "verb": "patch", "kind": "nodes"}
    assert sample(metrics, state, "kcm_host_writes_total", code="200", **write) == 1
    assert sample(metrics, state, "kcm_host_writes_total", code="<error>", **write) == 1


def test_every_attempt_of_a_request_is_counted(state: HostState) -> None:
    """Attempts count by code, method and host; without an answer the code is `<error>` (H-75)."""
    metrics = Metrics()
    for status in (429, 200, 0):
        metrics.on_request(a_request(status))
    series = {"method": "PATCH", "host": HOST}
    for code in ("429", "200", "<error>"):
        assert sample(metrics, state, "rest_client_requests_total", code=code, **series) == 1
    timed = {"verb": "PATCH", "host": HOST}
    assert sample(metrics, state, "rest_client_request_duration_seconds_count", **timed) == 3
    assert sample(metrics, state, "rest_client_request_size_bytes_sum", **timed) == 300
    assert sample(metrics, state, "rest_client_response_size_bytes_count", **timed) == 2


def test_watch_is_counted_but_not_timed(state: HostState) -> None:
    """A watch counts as a request and appears in no duration, as in the reference (H-71)."""
    metrics = Metrics()
    metrics.on_request(a_request(method="GET", verb="watch"))
    counted = {"code": "200", "method": "GET", "host": HOST}
    assert sample(metrics, state, "rest_client_requests_total", **counted) == 1
    assert b"rest_client_request_duration_seconds_count{" not in render(metrics, state)


RESOURCE = {"name": "kcm-host", "group": "", "version": "v1", "resource": "nodes"}
STREAM = "kcm_host_stream"
#: Changes of each stream, and the series with their labels and values.
STREAMS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, dict[str, str], float]]]] = {
    "two for two models hold no more objects than the server has (F-91)": (
        [{}, {"objects": 11, "undecodable_count": 0, "lists": 2}],
        [
            (f"{STREAM}_objects", NODES, 12),
            (f"{STREAM}_undecodable_objects", NODES, 1),
            (f"{STREAM}_lists_total", NODES, 3),
            (f"{STREAM}_synced", NODES, 1),
        ],
    ),
    "with other options they are series of their own (F-91)": (
        [{}, {"label_selector": "a=b", "objects": 5, "synced": False, "resource_version": "7"}],
        [
            (f"{STREAM}_objects", NODES, 12),
            (f"{STREAM}_objects", {**NODES, "label_selector": "a=b"}, 5),
            (f"{STREAM}_synced", NODES, 1),
            (f"{STREAM}_synced", {**NODES, "label_selector": "a=b"}, 0),
            ("informer_store_resource_version", RESOURCE, 456789012345678),
        ],
    ),
    "one that does not follow any more is not synced (F-91)": (
        [{"phase": "failed", "error": "403 Forbidden"}],
        [(f"{STREAM}_synced", NODES, 0)],
    ),
    "before the first list there is no version": (
        [{"resource_version": ""}],
        [("informer_store_resource_version", RESOURCE, 0)],
    ),
}


@pytest.mark.parametrize(("streams", "series"), STREAMS.values(), ids=STREAMS)
def test_streams_are_counted(
    state: HostState,
    streams: list[dict[str, Any]],
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    """By group, version, resource, namespace and selectors."""
    changed = tuple(msgspec.structs.replace(state.streams[0], **one) for one in streams)
    shown = msgspec.structs.replace(state, streams=changed)
    for name, labels, value in series:
        assert sample(Metrics(), shown, name, **labels) == value, name


def test_help_texts_are_plain_sentences(state: HostState) -> None:
    """Every metric of ours says in words what it counts, without numbers of rules (F-91)."""
    metrics = Metrics()
    metrics.on_sync(a_sync())
    metrics.on_request(a_request())
    helps = re.findall(r"^# HELP (\S+) (.*)$", render(metrics, state).decode(), re.MULTILINE)
    assert len(helps) > 20
    for name, text in helps:
        if not name.startswith("process_"):
            assert re.fullmatch(r"[A-Z0-9][^()`]+\.", text), (name, text)
            assert not re.search(r"\b[A-Z]+-\d", text), (name, text)


def test_scrape_names_the_build_and_the_process(state: HostState) -> None:
    """The host's version, the process' metrics and errors of extensions are part of a scrape."""
    metrics = Metrics()
    metrics.observer_errors += 1
    scrape = render(metrics, state).decode()
    assert "kcm_host_observer_errors_total 1.0" in scrape
    assert "kcm_host_build_info{" in scrape
    assert 'version="0.1.0"' in scrape
    assert "process_cpu_seconds_total" in scrape


def test_no_series_appears_twice(unready: HostState) -> None:
    """A scrape has each series once: Prometheus refuses doubles."""
    metrics = Metrics()
    metrics.on_sync(a_sync())
    metrics.on_request(a_request())
    seen = [
        (one.name, tuple(sorted(one.labels.items())))
        for family in text_string_to_metric_families(render(metrics, unready).decode())
        for one in family.samples
    ]
    assert len(seen) == len(set(seen))
