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
    depth = GaugeMetricFamily("workqueue_depth", "Keys that wait for a worker.", labels=["name"])
    adds = CounterMetricFamily(
        "workqueue_adds", "Keys that were queued while they were not yet.", labels=["name"]
    )
    retries = CounterMetricFamily(
        "workqueue_retries", "Keys queued again, at once or delayed (IQ-89).", labels=["name"]
    )
    unfinished = GaugeMetricFamily(
        "workqueue_unfinished_work_seconds", "Ages of running syncs, summed.", labels=["name"]
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
        "workqueue_queue_duration_seconds", "Time from queued to taken.", labels=["name"]
    )
    worked = HistogramMetricFamily(
        "workqueue_work_duration_seconds", "Time from taken to done.", labels=["name"]
    )
    seconds = HistogramMetricFamily(
        "kcm_host_sync_duration_seconds", "Time a sync took.", labels=["controller"]
    )
    outcomes = CounterMetricFamily(
        "kcm_host_syncs", "Syncs by how they ended.", labels=["controller", "outcome"]
    )
    for name, one in syncs.items():
        _add(queued, (queue_name(name),), one.queued)
        _add(worked, (queue_name(name),), one.worked)
        _add(seconds, (name,), one.seconds)
        for outcome, count in list(one.outcomes.items()):
            outcomes.add_metric([name, outcome], count)
    yield from (queued, worked, seconds, outcomes)


def controller_families(
    controllers: Iterable[ControllerState], metrics: Metrics
) -> Iterator[Metric]:
    """Give which controllers run, are ready, were restarted, and failed to tell their metrics."""
    running = GaugeMetricFamily(
        "running_managed_controllers", "Whether a controller runs.", labels=["name", "manager"]
    )
    ready = GaugeMetricFamily(
        "kcm_host_controller_ready", "Whether a controller is ready.", labels=["controller"]
    )
    restarts = CounterMetricFamily(
        "kcm_host_controller_restarts", "Restarts of a controller.", labels=["controller"]
    )
    errors = CounterMetricFamily(
        "kcm_host_plugin_metrics_errors",
        "Exceptions out of a controller's `kcm_metrics`.",
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
        "Attempts of requests by answer (H-75).",
        labels=["code", "method", "host"],
    )
    for series, count in list(metrics.answers.items()):
        total.add_metric(series, count)
    yield total
    seen = list(metrics.requests.items())
    yield _per_host(seen, "duration_seconds", "Time to the whole answer.", lambda one: one.seconds)
    yield _per_host(seen, "size_bytes", "Size of request bodies.", lambda one: one.sent, "request")
    yield _per_host(seen, "size_bytes", "Size of answers.", lambda one: one.received, "response")


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
    Give the streams, one series for each resource.

    Several streams of one resource (namespaces, selectors) are added up; the resource is synced
    when all of them are.
    """
    of: dict[tuple[str, str, str], list[StreamState]] = {}
    for stream in streams:
        of.setdefault((stream.group, stream.version, stream.resource), []).append(stream)
    synced = GaugeMetricFamily(
        "kcm_host_stream_synced", "Whether all objects were received once.", labels=RESOURCE
    )
    objects = GaugeMetricFamily("kcm_host_stream_objects", "Objects held.", labels=RESOURCE)
    undecodable = GaugeMetricFamily(
        "kcm_host_stream_undecodable_objects", "Objects that do not fit.", labels=RESOURCE
    )
    lists = CounterMetricFamily("kcm_host_stream_lists", "Complete lists read.", labels=RESOURCE)
    versions = GaugeMetricFamily(
        "informer_store_resource_version",
        "Last 15 digits of the newest version seen.",
        labels=("name", *RESOURCE),
    )
    for resource, those in of.items():
        synced.add_metric(resource, all(one.synced for one in those))
        objects.add_metric(resource, sum(one.objects for one in those))
        undecodable.add_metric(resource, sum(one.undecodable_count for one in those))
        lists.add_metric(resource, sum(one.lists for one in those))
        versions.add_metric((PROGRAM, *resource), max(map(version_number, those)))
    yield from (synced, objects, undecodable, lists, versions)


def version_number(stream: StreamState) -> int:
    """Give the last 15 digits of a resource version: as many as a float holds exactly."""
    digits = stream.resource_version[-15:]
    return int(digits) if digits.isdecimal() else 0


def host_families(metrics: Metrics, state: HostState) -> Iterator[Metric]:
    """Give writes, and what concerns the host as a whole."""
    writes = CounterMetricFamily(
        "kcm_host_writes",
        "Writes of syncs by answer.",
        labels=["controller", "verb", "kind", "code"],
    )
    for series, count in list(metrics.writes.items()):
        writes.add_metric(series, count)
    yield writes
    yield CounterMetricFamily(
        "kcm_host_observer_errors", "Exceptions out of extensions.", value=metrics.observer_errors
    )
    yield GaugeMetricFamily("kcm_host_ready", "Whether the host is ready.", value=state.ready)
    info = GaugeMetricFamily(
        "kcm_host_build_info", "What runs here.", labels=["version", "python_version"]
    )
    info.add_metric([state.version, platform.python_version()], 1)
    yield info


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], histogram: Histogram) -> None:
    bounds = [*map(floatToGoString, histogram.bounds), "+Inf"]
    counts = accumulate(tuple(histogram.counts))
    family.add_metric(labels, list(zip(bounds, counts, strict=True)), histogram.total)
