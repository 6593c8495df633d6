"""What the host counts: syncs, writes and requests."""

import logging
from bisect import bisect_left
from types import MappingProxyType

from kcm_host.api.records import SyncRecord, WriteRecord
from kcm_host.api.states import HostState, RequestRecord
from kcm_host.observe.plugin_metrics import PluginMetrics, Told

log = logging.getLogger(__name__)


OUTCOMES = ("done", "later", "error", "timeout", "cancelled")
#: H-71: 10 ns x 10^k.
QUEUE_BOUNDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SYNC_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUEST_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BOUNDS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
#: What stands for the status of a request that got no answer (H-75).
NO_ANSWER = "<error>"
NOTHING_TOLD: Told = MappingProxyType({})


class Histogram:
    """How many values fell below each bound, the bound itself included, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Syncs:
    """The syncs of one controller."""

    __slots__ = ("missed", "outcomes", "queued", "seconds", "worked")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        #: Those that wrote although only the slow sweep had asked for the key.
        self.missed = 0
        self.queued = Histogram(QUEUE_BOUNDS)
        self.worked = Histogram(QUEUE_BOUNDS)
        self.seconds = Histogram(SYNC_BOUNDS)


class Requests:
    """The requests of one method to one host, watches excepted."""

    __slots__ = ("received", "seconds", "sent")

    def __init__(self) -> None:
        self.seconds = Histogram(REQUEST_BOUNDS)
        self.sent = Histogram(SIZE_BOUNDS)
        self.received = Histogram(SIZE_BOUNDS)


class Metrics:
    """
    Counters and histograms of the host, and their text in Prometheus' format.

    The `on_` methods belong to the event loop and cost a few microseconds. `render` may be
    called from any thread: it copies what it reads, so a scrape may be one event ahead in one
    series and behind in another, never torn within one.
    """

    def __init__(self) -> None:
        self.syncs: dict[str, Syncs] = {}
        #: By controller, verb, kind and code.
        self.writes: dict[tuple[str, str, str, str], int] = {}
        #: By code, method and host.
        self.answers: dict[tuple[str, str, str], int] = {}
        #: By method and host.
        self.requests: dict[tuple[str, str], Requests] = {}
        #: Exceptions out of extensions' `kcm_observe`.
        self.observer_errors = 0
        self.plugins = PluginMetrics()

    def on_sync(self, record: SyncRecord) -> None:
        """Count one sync that ended."""
        syncs = self.syncs.get(record.controller)
        if syncs is None:
            syncs = self.syncs[record.controller] = Syncs()
        syncs.outcomes[record.outcome] = syncs.outcomes.get(record.outcome, 0) + 1
        syncs.missed += record.missed_wakeup
        syncs.queued.observe(record.queued_seconds)
        syncs.worked.observe(record.seconds)
        syncs.seconds.observe(record.seconds)

    def on_write(self, controller: str, record: WriteRecord) -> None:
        """Count one write, as soon as it is answered or given up."""
        series = (controller, record.verb, record.kind, code(record.status))
        self.writes[series] = self.writes.get(series, 0) + 1

    def on_request(self, record: RequestRecord) -> None:
        """
        Count one attempt of one request (H-75).

        Watches are counted, but neither timed nor weighed: like the reference's, they would say
        nothing about how fast the server answers.
        """
        series = (code(record.status), record.method, record.host)
        self.answers[series] = self.answers.get(series, 0) + 1
        if record.verb == "watch":
            return
        requests = self.requests.get(series[1:])
        if requests is None:
            requests = self.requests[series[1:]] = Requests()
        requests.seconds.observe(record.seconds)
        requests.sent.observe(record.sent_bytes)
        if record.status:
            requests.received.observe(record.received_bytes)

    def render(self, state: HostState, told: Told = NOTHING_TOLD) -> bytes:
        """
        Give everything counted so far as text for Prometheus (version 0.0.4).

        With it come `state` and what controllers told, all of that from one moment.
        """
        from kcm_host.observe import prometheus  # noqa: PLC0415 - 4 MiB that only a scrape needs

        return prometheus.render(self, state, told)


def code(status: int) -> str:
    """Give the label of a status; 0 means that no answer came."""
    return str(status) if status else NO_ANSWER
