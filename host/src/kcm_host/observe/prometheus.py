"""The host's metrics as Prometheus reads them: names, labels and text."""

import platform
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

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

from kcm_host.api.metrics import Metric as PluginMetric
from kcm_host.api.states import ControllerState, HostState, QueueState, StreamState
from kcm_host.observe.metrics import Histogram, Metrics, Requests, Syncs
from kcm_host.observe.plugin_metrics import Told

#: How the reference calls its main queues (H-16); a queue of ours is one controller's.
QUEUE_NAMES = {
    "clusterrole-aggregation": "ClusterRoleAggregator",
    "resourceclaim": "resource_claim",
    "resourcequota": "resourcequota_primary",
    "servicecidrs": "ipaddresses",
    "ttl": "ttlcontroller",
}
PROGRAM = "kcm-host"
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
#: What the names of a family's series end with, by its type; the bare name is taken too.
SUFFIXES = {
    "counter": ("", "_total"),
    "histogram": ("", "_bucket", "_count", "_sum"),
}
RESOURCE = ("group", "version", "resource")
SELECTION = (*RESOURCE, "namespace", "label_selector", "field_selector")

_process = ProcessCollector(registry=None)


class Moment(Collector):
    """What one scrape sees."""

    def __init__(self, metrics: Metrics, state: HostState, told: Told) -> None:
        self._metrics = metrics
        self._state = state
        self._told = told

    def collect(self) -> Iterator[Metric]:
        """Give all families, every series of a known controller included, even at zero."""
        taken: set[str] = set()
        for family in self._of_host():
            taken |= names_of(family)
            yield family
        for metric in self._metrics.plugins.shown(self._told, taken=taken):
            yield plugin_family(metric)

    def _of_host(self) -> Iterator[Metric]:
        controllers = self._state.controllers
        yield from queue_families(controllers)
        yield from sync_families(self._with_idle(controllers))
        yield from controller_families(controllers, self._metrics)
        yield from request_families(self._metrics)
        yield from stream_families(self._state.streams)
        yield from host_families(self._metrics, self._state)
        yield from _process.collect()

    def _with_idle(self, controllers: tuple[ControllerState, ...]) -> dict[str, Syncs]:
        return {one.name: Syncs() for one in controllers} | dict(self._metrics.syncs)


def render(metrics: Metrics, state: HostState, told: Told) -> bytes:
    """Give the text of one scrape."""
    return generate_latest(Moment(metrics, state, told))


def names_of(family: Metric) -> set[str]:
    """Give every name that a family has in a scrape."""
    return {f"{family.name}{suffix}" for suffix in SUFFIXES.get(family.type, ("",))}


def plugin_family(metric: PluginMetric) -> Metric:
    """Give a metric of a controller in the form of prometheus-client."""
    names = sorted(metric.series[0][0]) if metric.series else []
    sort = CounterMetricFamily if metric.type == "counter" else GaugeMetricFamily
    family = sort(metric.name, metric.help, labels=names)
    for labels, value in metric.series:
        family.add_metric([labels[name] for name in names], value)
    return family


def queue_name(controller: str) -> str:
    """Give the name of a controller's queue, as existing dashboards know it."""
    return QUEUE_NAMES.get(controller, controller)


def queue_families(controllers: Iterable[ControllerState]) -> Iterator[Metric]:
    """Give the state of the work queues; a controller without one counts as empty."""
    states = {queue_name(one.name): one.queue or NO_QUEUE for one in controllers}
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


def sync_families(syncs: dict[str, Syncs]) -> Iterator[Metric]:
    """Give how syncs ended and how long they took."""
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
        "Syncs that wrote though only the slow sweep had asked for them: always 0.",
        labels=["controller"],
    )
    for name, one in syncs.items():
        missed.add_metric([name], one.missed)
        _add(queued, (queue_name(name),), one.queued)
        _add(worked, (queue_name(name),), one.worked)
        _add(seconds, (name,), one.seconds)
        for outcome, count in list(one.outcomes.items()):
            outcomes.add_metric([name, outcome], count)
    yield from (queued, worked, seconds, outcomes, missed)


def controller_families(
    controllers: Iterable[ControllerState], metrics: Metrics
) -> Iterator[Metric]:
    """Give which controllers run, are ready, were restarted, and failed to tell their metrics."""
    running = GaugeMetricFamily(
        "running_managed_controllers", "1 while the controller runs.", labels=["name", "manager"]
    )
    ready = GaugeMetricFamily(
        "kcm_host_controller_ready",
        "1 while the controller runs and all its watches follow the server.",
        labels=["controller"],
    )
    restarts = CounterMetricFamily(
        "kcm_host_controller_restarts",
        "Times that a controller was started again.",
        labels=["controller"],
    )
    errors = CounterMetricFamily(
        "kcm_host_plugin_metrics_errors",
        "Exceptions that the kcm_metrics hook of a controller raised.",
        labels=["controller"],
    )
    for one in controllers:
        running.add_metric([one.name, PROGRAM], one.phase == "running")
        ready.add_metric([one.name], one.ready)
        restarts.add_metric([one.name], one.restarts)
        errors.add_metric([one.name], metrics.plugins.errors.get(one.name, 0))
    yield from (running, ready, restarts, errors)


def request_families(metrics: Metrics) -> Iterator[Metric]:
    """Give the requests to the API server, under the names of client-go."""
    total = CounterMetricFamily(
        "rest_client_requests",
        "Attempts of requests to the API server, by status code of the answer.",
        labels=["code", "method", "host"],
    )
    for series, count in list(metrics.answers.items()):
        total.add_metric(series, count)
    yield total
    seen = list(metrics.requests.items())
    yield _per_host(
        seen,
        "duration_seconds",
        "Time until the whole answer was read, watches left out.",
        lambda one: one.seconds,
    )
    yield _per_host(
        seen,
        "size_bytes",
        "Size of request bodies, watches left out.",
        lambda one: one.sent,
        "request",
    )
    yield _per_host(
        seen,
        "size_bytes",
        "Size of answer bodies, watches left out.",
        lambda one: one.received,
        "response",
    )


def _per_host(
    seen: list[tuple[tuple[str, str], Requests]],
    name: str,
    text: str,
    pick: Callable[[Requests], Histogram],
    side: str = "request",
) -> Metric:
    # The reference puts the HTTP method under `verb` here, and dashboards ask for GET and PATCH.
    family = HistogramMetricFamily(f"rest_client_{side}_{name}", text, labels=["verb", "host"])
    for series, requests in seen:
        _add(family, series, pick(requests))
    return family


def stream_families(streams: Iterable[StreamState]) -> Iterator[Metric]:
    """
    Return the streams, one series for each selection of a resource.

    Two streams with one selection (a controller that came later reads other fields) hold the same
    objects: these are counted once, and are synced when both are.
    """
    of: dict[tuple[str, ...], list[StreamState]] = {}
    for one in streams:
        resource = (one.group, one.version, one.resource)
        selection = (*resource, one.namespace, one.label_selector, one.field_selector)
        of.setdefault(selection, []).append(one)
    synced = GaugeMetricFamily(
        "kcm_host_stream_synced",
        "1 while all objects are known and the changes of the server are followed.",
        labels=SELECTION,
    )
    objects = GaugeMetricFamily("kcm_host_stream_objects", "Objects held.", labels=SELECTION)
    undecodable = GaugeMetricFamily(
        "kcm_host_stream_undecodable_objects",
        "Objects whose fields are not as a controller expects them.",
        labels=SELECTION,
    )
    lists = CounterMetricFamily("kcm_host_stream_lists", "Complete lists read.", labels=SELECTION)
    for labels, those in of.items():
        synced.add_metric(labels, all(one.synced and not one.error for one in those))
        objects.add_metric(labels, max(one.objects for one in those))
        undecodable.add_metric(labels, max(one.undecodable_count for one in those))
        lists.add_metric(labels, sum(one.lists for one in those))
    yield from (synced, objects, undecodable, lists, _versions(streams))


def _versions(streams: Iterable[StreamState]) -> Metric:
    """Return the newest version of each resource, under the name and labels of client-go."""
    newest: dict[tuple[str, str, str], int] = {}
    for one in streams:
        resource = (one.group, one.version, one.resource)
        newest[resource] = max(newest.get(resource, 0), version_number(one))
    family = GaugeMetricFamily(
        "informer_store_resource_version",
        "Last 15 digits of the newest resource version seen.",
        labels=("name", *RESOURCE),
    )
    for resource, version in newest.items():
        family.add_metric((PROGRAM, *resource), version)
    return family


def version_number(stream: StreamState) -> int:
    """Give the last 15 digits of a resource version: as many as a float holds exactly."""
    digits = stream.resource_version[-15:]
    return int(digits) if digits.isdecimal() else 0


def host_families(metrics: Metrics, state: HostState) -> Iterator[Metric]:
    """Give writes, and what concerns the host as a whole."""
    writes = CounterMetricFamily(
        "kcm_host_writes",
        "Writes to the API server, by status code of the answer.",
        labels=["controller", "verb", "kind", "code"],
    )
    for series, count in list(metrics.writes.items()):
        writes.add_metric(series, count)
    yield writes
    yield CounterMetricFamily(
        "kcm_host_observer_errors",
        "Exceptions that the kcm_observe hooks of extensions raised.",
        value=metrics.observer_errors,
    )
    yield GaugeMetricFamily("kcm_host_ready", "1 while /readyz answers 200.", value=state.ready)
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
