"""The metrics in the text format of Prometheus: names, labels and values."""

import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from kcm_host.api.hooks import Metric as PluginMetric
from kcm_host.observe.metrics import Histogram, Metrics, RequestMetrics, SyncMetrics
from kcm_host.observe.plugin_metrics import Samples
from kcm_host.observe.states import ControllerState, HostState, QueueState, StreamState

PROGRAM = "kcm-host"
# For controllers without a run, so that no series of theirs appears and disappears.
NO_QUEUE = QueueState(
    depth=0,
    waiting=0,
    processing=0,
    adds=0,
    retries=0,
    unfinished_seconds=0.0,
    longest_seconds=0.0,
    failing={},
)
#: The suffixes of the series names of a family, by its type; the bare name is reserved too.
SUFFIXES = {
    "counter": ("", "_total"),
    "histogram": ("", "_bucket", "_count", "_sum"),
}
RESOURCE_LABELS = ("group", "version", "resource")
INFORMER_LABELS = (*RESOURCE_LABELS, "namespace", "label_selector", "field_selector")

NO_SAMPLES: Samples = MappingProxyType({})

_process = ProcessCollector(registry=None)


class ScrapeCollector(Collector):
    """The metric families of one scrape."""

    def __init__(self, metrics: Metrics, state: HostState, samples: Samples) -> None:
        self._metrics = metrics
        self._state = state
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """Return all families; every series of an enabled controller exists, even at zero."""
        reserved: set[str] = set()
        for family in self._host_families():
            reserved |= names_of(family)
            yield family
        for metric in self._metrics.plugins.valid(self._samples, reserved=reserved):
            yield plugin_family(metric)

    def _host_families(self) -> Iterator[Metric]:
        controllers = self._state.controllers
        yield from queue_families(controllers)
        yield from sync_families(self._with_zeros(controllers), queue_names(controllers))
        yield from controller_families(controllers, self._metrics)
        yield from request_families(self._metrics)
        yield from stream_families(self._state.streams)
        yield from host_families(self._metrics, self._state)
        yield from _process.collect()

    def _with_zeros(self, controllers: tuple[ControllerState, ...]) -> dict[str, SyncMetrics]:
        # A counter that begins with its first event has no increase there: alerts would miss the
        # first failure.
        return {one.name: SyncMetrics() for one in controllers} | dict(self._metrics.syncs)


def render(metrics: Metrics, state: HostState, samples: Samples = NO_SAMPLES) -> bytes:
    """
    Return all metrics as text for Prometheus (version 0.0.4).

    `state` and the `samples` of the controllers are of one moment. May be called in any thread.
    """
    return generate_latest(ScrapeCollector(metrics, state, samples))


def names_of(family: Metric) -> set[str]:
    """Return all series names of a family."""
    return {f"{family.name}{suffix}" for suffix in SUFFIXES.get(family.type, ("",))}


def plugin_family(metric: PluginMetric) -> Metric:
    """Return a metric of a controller as a family of prometheus-client."""
    names = sorted(metric.series[0][0]) if metric.series else []
    sort = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
    family = sort(metric.name, metric.help, labels=names)
    for labels, value in metric.series:
        family.add_metric([labels[name] for name in names], value)
    return family


def queue_names(controllers: Iterable[ControllerState]) -> dict[str, str]:
    """Return the queue name of each controller; its own name where another one has it already."""
    names: dict[str, str] = {}
    for one in controllers:
        # Two series with equal labels would make the whole scrape invalid.
        wanted = one.queue_name or one.name
        names[one.name] = one.name if wanted in names.values() else wanted
    return names


def queue_families(controllers: Collection[ControllerState]) -> Iterator[Metric]:
    """Return the families of the work queues; a controller without a queue counts as empty."""
    names = queue_names(controllers)
    states = {names[one.name]: one.queue or NO_QUEUE for one in controllers}
    depth = GaugeMetricFamily(
        "workqueue_depth",
        "Keys that wait for a worker, and keys that changed while a worker has them.",
        labels=["name"],
    )
    adds = CounterMetricFamily(
        "workqueue_adds", "Keys added to the queue that were not in it already.", labels=["name"]
    )
    retries = CounterMetricFamily(
        "workqueue_retries",
        "Keys added again after a failed sync or for a later time.",
        labels=["name"],
    )
    unfinished = GaugeMetricFamily(
        "workqueue_unfinished_work_seconds",
        "Sum of the ages of all running syncs.",
        labels=["name"],
    )
    longest = GaugeMetricFamily(
        "workqueue_longest_running_processor_seconds",
        "Age of the oldest running sync.",
        labels=["name"],
    )
    for name, queue in states.items():
        depth.add_metric([name], queue.depth)
        adds.add_metric([name], queue.adds)
        retries.add_metric([name], queue.retries)
        unfinished.add_metric([name], queue.unfinished_seconds)
        longest.add_metric([name], queue.longest_seconds)
    yield from (depth, adds, retries, unfinished, longest)


def sync_families(syncs: Mapping[str, SyncMetrics], names: Mapping[str, str]) -> Iterator[Metric]:
    """Return the families of sync outcomes and durations; `names` are those of the queues."""
    queued = HistogramMetricFamily(
        "workqueue_queue_duration_seconds",
        "Time that a key waits in the queue until a worker takes it.",
        labels=["name"],
    )
    worked = HistogramMetricFamily(
        "workqueue_work_duration_seconds",
        "Time that a worker needs for a key.",
        labels=["name"],
    )
    seconds = HistogramMetricFamily(
        "kcm_host_sync_duration_seconds", "Time that a sync takes.", labels=["controller"]
    )
    outcomes = CounterMetricFamily(
        "kcm_host_syncs", "Syncs that ended, by outcome.", labels=["controller", "outcome"]
    )
    missed = CounterMetricFamily(
        "kcm_host_missed_wakeups",
        "Syncs that wrote although only the resync requested them: always 0.",
        labels=["controller"],
    )
    for name, one in syncs.items():
        missed.add_metric([name], one.missed)
        _add(queued, (names.get(name, name),), one.queued)
        _add(worked, (names.get(name, name),), one.worked)
        _add(seconds, (name,), one.seconds)
        for outcome, count in list(one.outcomes.items()):
            outcomes.add_metric([name, outcome], count)
    yield from (queued, worked, seconds, outcomes, missed)


def controller_families(
    controllers: Iterable[ControllerState], metrics: Metrics
) -> Iterator[Metric]:
    """Return the families of controllers: running, ready, restarts, errors of metrics hooks."""
    running = GaugeMetricFamily(
        "running_managed_controllers", "1 while the controller runs.", labels=["name", "manager"]
    )
    ready = GaugeMetricFamily(
        "kcm_host_controller_ready",
        "1 while the controller runs and all its watches are synced.",
        labels=["controller"],
    )
    idle = GaugeMetricFamily(
        "kcm_host_controller_idle",
        "1 while the controller runs and has nothing to watch; /status names what it waits for.",
        labels=["controller"],
    )
    restarts = CounterMetricFamily(
        "kcm_host_controller_restarts",
        "Restarts of a controller.",
        labels=["controller"],
    )
    errors = CounterMetricFamily(
        "kcm_host_plugin_metrics_errors",
        "Exceptions of the kcm_metrics hook of a controller.",
        labels=["controller"],
    )
    for one in controllers:
        running.add_metric([one.name, PROGRAM], one.phase == "running")
        ready.add_metric([one.name], one.ready)
        idle.add_metric([one.name], bool(one.idle))
        restarts.add_metric([one.name], one.restarts)
        errors.add_metric([one.name], metrics.plugins.errors.get(one.name, 0))
    yield from (running, ready, idle, restarts, errors)


def request_families(metrics: Metrics) -> Iterator[Metric]:
    """Return the families of requests to the API server, under the names of client-go."""
    total = CounterMetricFamily(
        "rest_client_requests",
        "Attempts of requests to the API server, by status code of the response.",
        labels=["code", "method", "host"],
    )
    # Copies, here and below: the loop adds series while this thread reads.
    for series, count in list(metrics.responses.items()):
        total.add_metric(series, count)
    yield total
    requests = list(metrics.requests.items())
    yield _per_host(
        requests,
        "duration_seconds",
        "Time until the full response was read, watches excluded.",
        pick=lambda one: one.seconds,
    )
    yield _per_host(
        requests,
        "size_bytes",
        "Size of request bodies, watches excluded.",
        pick=lambda one: one.sent,
        side="request",
    )
    yield _per_host(
        requests,
        "size_bytes",
        "Size of response bodies, watches excluded.",
        pick=lambda one: one.received,
        side="response",
    )


def _per_host(
    requests: list[tuple[tuple[str, str], RequestMetrics]],
    name: str,
    text: str,
    pick: Callable[[RequestMetrics], Histogram],
    side: str = "request",
) -> Metric:
    # As in client-go, the label `verb` has the HTTP method here: dashboards query GET and PATCH.
    family = HistogramMetricFamily(f"rest_client_{side}_{name}", text, labels=["verb", "host"])
    for series, one in requests:
        _add(family, series, pick(one))
    return family


def stream_families(streams: Iterable[StreamState]) -> Iterator[Metric]:
    """
    Return the families of informers, one series for each resource and its list-watch options.

    Two informers with the same options (one controller reads other fields than another one) hold
    the same objects: these are counted once, and are synced when both informers are.
    """
    groups: dict[tuple[str, ...], list[StreamState]] = {}
    for one in streams:
        resource = (one.group, one.version, one.resource)
        labels = (*resource, one.namespace, one.label_selector, one.field_selector)
        groups.setdefault(labels, []).append(one)
    synced = GaugeMetricFamily(
        "kcm_host_stream_synced",
        "1 while all objects are cached and their changes are watched.",
        labels=INFORMER_LABELS,
    )
    objects = GaugeMetricFamily("kcm_host_stream_objects", "Objects held.", labels=INFORMER_LABELS)
    undecodable = GaugeMetricFamily(
        "kcm_host_stream_undecodable_objects",
        "Objects whose fields are not as a controller expects them.",
        labels=INFORMER_LABELS,
    )
    lists = CounterMetricFamily(
        "kcm_host_stream_lists", "Complete lists read.", labels=INFORMER_LABELS
    )
    for group_labels, group in groups.items():
        synced.add_metric(group_labels, all(one.synced and not one.error for one in group))
        objects.add_metric(group_labels, max(one.objects for one in group))
        undecodable.add_metric(group_labels, max(one.undecodable_count for one in group))
        lists.add_metric(group_labels, sum(one.lists for one in group))
    yield from (synced, objects, undecodable, lists, _versions(streams))


def _versions(streams: Iterable[StreamState]) -> Metric:
    """Return the newest resource version of each resource, under the name of client-go."""
    newest: dict[tuple[str, str, str], int] = {}
    for one in streams:
        resource = (one.group, one.version, one.resource)
        newest[resource] = max(newest.get(resource, 0), version_number(one))
    family = GaugeMetricFamily(
        "informer_store_resource_version",
        "Last 15 digits of the newest resource version seen.",
        labels=("name", *RESOURCE_LABELS),
    )
    for resource, version in newest.items():
        family.add_metric((PROGRAM, *resource), version)
    return family


def version_number(stream: StreamState) -> int:
    """Return the last 15 digits of a resource version: as many as a float can represent."""
    digits = stream.resource_version[-15:]
    return int(digits) if digits.isdecimal() else 0


def host_families(metrics: Metrics, state: HostState) -> Iterator[Metric]:
    """Return the families of writes and of the host itself."""
    writes = CounterMetricFamily(
        "kcm_host_writes",
        "Writes to the API server, by status code of the response.",
        labels=["controller", "verb", "kind", "code"],
    )
    for series, count in list(metrics.writes.items()):
        writes.add_metric(series, count)
    yield writes
    yield CounterMetricFamily(
        "kcm_host_observer_errors",
        "Exceptions of the kcm_observe hooks of extensions.",
        value=metrics.observer_errors,
    )
    yield GaugeMetricFamily("kcm_host_ready", "1 while /readyz returns 200.", value=state.ready)
    yield GaugeMetricFamily(
        "kcm_host_tasks", "Tasks of the event loop that have not ended.", value=state.tasks
    )
    info = GaugeMetricFamily(
        "kcm_host_build_info",
        "Versions of the host and of Python.",
        labels=["version", "python_version"],
    )
    info.add_metric([state.version, platform.python_version()], 1)
    yield info


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    counts = accumulate(tuple(histogram.counts))
    family.add_metric(labels, list(zip(bounds, counts, strict=True)), histogram.total)
