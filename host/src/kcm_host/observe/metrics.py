"""Counters and histograms of the host: syncs, writes and requests."""

from bisect import bisect_left
from typing import get_args

from kcm_host.api.sync import SyncOutcome, SyncRecord, WriteRecord
from kcm_host.observe.plugin_metrics import PluginMetrics
from kcm_host.observe.states import RequestRecord

OUTCOMES: tuple[SyncOutcome, ...] = get_args(SyncOutcome)
FAILED: frozenset[SyncOutcome] = frozenset({"error", "timeout", "terminal"})
#: H-71: 10 ns x 10^k.
QUEUE_BOUNDS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SYNC_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUEST_BOUNDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BOUNDS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
#: The `code` label of a request without a response (H-75).
NO_RESPONSE = "<error>"


class Histogram:
    """The number of values up to each bound, the bound included, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class SyncMetrics:
    """The syncs of one controller."""

    __slots__ = ("missed", "outcomes", "queued", "seconds", "worked")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        #: Those that wrote although only the resync requested the key.
        self.missed = 0
        self.queued = Histogram(QUEUE_BOUNDS)
        self.worked = Histogram(QUEUE_BOUNDS)
        self.seconds = Histogram(SYNC_BOUNDS)


class RequestMetrics:
    """The requests of one method to one host, watches excluded."""

    __slots__ = ("received", "seconds", "sent")

    def __init__(self) -> None:
        self.seconds = Histogram(REQUEST_BOUNDS)
        self.sent = Histogram(SIZE_BOUNDS)
        self.received = Histogram(SIZE_BOUNDS)


class Metrics:
    """
    All counters and histograms of the host.

    The `on_` methods belong to the event loop and take a few microseconds. Another thread may read
    the attributes at the same time if it copies them first: one series may then be one event ahead
    of another one, but each is consistent.
    """

    def __init__(self) -> None:
        self.syncs: dict[str, SyncMetrics] = {}
        #: By controller, verb, kind and code.
        self.writes: dict[tuple[str, str, str, str], int] = {}
        #: By code, method and host.
        self.responses: dict[tuple[str, str, str], int] = {}
        #: By method and host.
        self.requests: dict[tuple[str, str], RequestMetrics] = {}
        #: Exceptions of `kcm_observe` hooks.
        self.observer_errors = 0
        self.plugins = PluginMetrics()

    def on_sync(self, record: SyncRecord) -> None:
        """Count one sync that ended."""
        syncs = self.syncs.get(record.controller)
        if syncs is None:
            syncs = self.syncs[record.controller] = SyncMetrics()
        syncs.outcomes[record.outcome] += 1
        syncs.missed += record.missed_wakeup
        syncs.queued.observe(record.queued_seconds)
        syncs.worked.observe(record.seconds)
        syncs.seconds.observe(record.seconds)

    def on_write(self, controller: str, record: WriteRecord) -> None:
        """Count one write, when it was answered or has failed."""
        series = (controller, record.verb, record.kind, code(record.status))
        self.writes[series] = self.writes.get(series, 0) + 1

    def on_request(self, record: RequestRecord) -> None:
        """
        Count one attempt of one request (H-75).

        Watches are counted, but not added to the histograms, as in client-go: their durations say
        nothing about the latency of the server.
        """
        series = (code(record.status), record.method, record.host)
        self.responses[series] = self.responses.get(series, 0) + 1
        if record.verb == "watch":
            return
        requests = self.requests.get(series[1:])
        if requests is None:
            requests = self.requests[series[1:]] = RequestMetrics()
        requests.seconds.observe(record.seconds)
        requests.sent.observe(record.sent_bytes)
        if record.status:
            requests.received.observe(record.received_bytes)


def code(status: int) -> str:
    """Return the `code` label of a status; 0 means that there was no response."""
    return str(status) if status else NO_RESPONSE
