"""What a scrape of the metrics holds."""

import re
from collections.abc import Mapping

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


def test_missed_wakeups_are_counted(state: HostState) -> None:
    """One for each sync that wrote though only the resync requested its key (F-52)."""
    metrics = Metrics()
    metrics.on_sync(a_sync())
    metrics.on_sync(msgspec.structs.replace(a_sync(), missed_wakeup=True))
    assert sample(metrics, state, "kcm_host_missed_wakeups_total", controller="ttl") == 1


def test_syncs_are_counted_by_outcome_and_timed(state: HostState) -> None:
    """Each sync counts under its outcome, in both durations of the queue and in our own."""
    metrics = Metrics()
    metrics.on_sync(a_sync("done", seconds=0.02))
    metrics.on_sync(a_sync("error", seconds=4.0))
    ours = {"controller": "ttl"}
    queue = {"name": "ttlcontroller"}
    assert sample(metrics, state, "kcm_host_syncs_total", outcome="done", **ours) == 1
    assert sample(metrics, state, "kcm_host_syncs_total", outcome="error", **ours) == 1
    assert sample(metrics, state, "kcm_host_sync_duration_seconds_sum", **ours) == 4.02
    assert sample(metrics, state, "workqueue_queue_duration_seconds_sum", **queue) == 1.0
    assert sample(metrics, state, "workqueue_work_duration_seconds_count", **queue) == 2
    low = sample(metrics, state, "workqueue_work_duration_seconds_bucket", le="0.1", **queue)
    assert low == 1


def test_value_on_a_bound_belongs_to_it(state: HostState) -> None:
    """A bucket includes its upper bound."""
    metrics = Metrics()
    metrics.on_sync(a_sync(seconds=0.1))
    bucket = {"name": "ttlcontroller", "le": "0.1"}
    assert sample(metrics, state, "workqueue_work_duration_seconds_bucket", **bucket) == 1


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


def test_two_informers_with_the_same_options_count_once(state: HostState) -> None:
    """Two streams for two models of a kind hold no more objects than the server has (F-91)."""
    [nodes] = state.streams
    again = msgspec.structs.replace(nodes, objects=11, undecodable_count=0, lists=2)
    both = msgspec.structs.replace(state, streams=(nodes, again))
    assert sample(Metrics(), both, "kcm_host_stream_objects", **NODES) == 12
    assert sample(Metrics(), both, "kcm_host_stream_undecodable_objects", **NODES) == 1
    assert sample(Metrics(), both, "kcm_host_stream_lists_total", **NODES) == 3
    assert sample(Metrics(), both, "kcm_host_stream_synced", **NODES) == 1


def test_informers_with_other_options_are_separate_series(state: HostState) -> None:
    """What a selector leaves out of one stream is not counted twice in another's sum (F-91)."""
    [nodes] = state.streams
    some = msgspec.structs.replace(
        nodes, label_selector="a=b", objects=5, synced=False, resource_version="7"
    )
    both = msgspec.structs.replace(state, streams=(nodes, some))
    of_some = {**NODES, "label_selector": "a=b"}
    assert sample(Metrics(), both, "kcm_host_stream_objects", **NODES) == 12
    assert sample(Metrics(), both, "kcm_host_stream_objects", **of_some) == 5
    assert sample(Metrics(), both, "kcm_host_stream_synced", **NODES) == 1
    assert sample(Metrics(), both, "kcm_host_stream_synced", **of_some) == 0
    resource = {"group": "", "version": "v1", "resource": "nodes"}
    newest = sample(Metrics(), both, "informer_store_resource_version", name="kcm-host", **resource)
    assert newest == 456789012345678


def test_broken_stream_is_not_synced(state: HostState) -> None:
    """A stream that had all objects once and does not follow any more counts as 0 (F-91)."""
    broken = msgspec.structs.replace(state.streams[0], phase="failed", error="403 Forbidden")
    later = msgspec.structs.replace(state, streams=(broken,))
    assert sample(Metrics(), later, "kcm_host_stream_synced", **NODES) == 0


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


def test_stream_without_a_version_is_zero(state: HostState) -> None:
    """Before the first list a stream has no version; it shows as 0."""
    blank = msgspec.structs.replace(state.streams[0], resource_version="")
    early = msgspec.structs.replace(state, streams=(blank,))
    labels = {"name": "kcm-host", "group": "", "version": "v1", "resource": "nodes"}
    assert sample(Metrics(), early, "informer_store_resource_version", **labels) == 0


def test_observer_errors_are_counted(state: HostState) -> None:
    """An exception out of an extension counts."""
    metrics = Metrics()
    metrics.observer_errors += 1
    assert sample(metrics, state, "kcm_host_observer_errors_total") == 1


def test_scrape_names_the_build_and_the_process(state: HostState) -> None:
    """The host's version and the process' own metrics are part of a scrape."""
    scrape = render(Metrics(), state).decode()
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
