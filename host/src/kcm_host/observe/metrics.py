"""Metrics: what the host counts, and the validated samples of plugins."""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.metrics import Metric
from kcm_host.api.records import SyncRecord, WriteRecord
from kcm_host.api.states import HostState, RequestRecord
from kcm_host.observe.logging import OncePerFact, one_line

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


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_TYPES = ("counter", "gauge")
#: Of a wrong value, so much is told.
_SHOWN = 100


def problem_of(metric: Metric) -> str:
    """Give what is wrong with a metric and what to do, empty when nothing is."""
    return next(_problems(metric), "")


def copy_of(metric: Metric) -> Metric:
    """Give a metric as one that nobody can change any more; what is wrong in it stays."""
    if isinstance(metric.series, str) or not isinstance(metric.series, Sequence):
        return metric
    return Metric(metric.name, metric.help, metric.type, tuple(map(_copied, metric.series)))


def _copied(series: Any) -> Any:
    match series:
        case (Mapping() as labels, value):
            return dict(labels), value
        case _:
            return series


def _problems(metric: Metric) -> Iterator[str]:
    """Give everything that is wrong; each problem assumes that there was none before."""
    if not isinstance(metric.name, str) or not _NAME.fullmatch(metric.name):
        yield "this is no name; use letters, digits and '_', with no digit first"
    if not isinstance(metric.help, str):
        yield f"its help is {_seen(metric.help)}; give a sentence"
    elif not _is_unicode(metric.help):
        yield "its help cannot be written as UTF-8; replace its lone surrogates"
    if metric.type not in _TYPES:
        yield f"its type is {_seen(metric.type)}; give 'counter' or 'gauge'"
    if metric.type == "counter" and not metric.name.endswith("_total"):
        yield "it is a counter; let its name end with '_total'"
    if isinstance(metric.series, str) or not isinstance(metric.series, Sequence):
        yield f"its series are a {type(metric.series).__name__}; give a tuple"
    for one in metric.series:
        yield from _series_problems(one)
    yield from _label_problems([labels for labels, _ in metric.series])


def _series_problems(series: object) -> Iterator[str]:
    match series:
        case (Mapping() as labels, (int() | float()) as number):
            for name, value in labels.items():
                if not isinstance(value, str):
                    yield f"label {_seen(name)} is {_seen(value)}; give a string"
                elif not _is_unicode(value):
                    yield f"label {_seen(name)} cannot be written as UTF-8: {_seen(value)}"
            if not _is_float(number):
                yield f"a value is {_seen(number)}; give a number below 1.8e308"
        case _:
            yield f"a series is {_seen(series)}; give a pair of labels and number"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_float(value: float) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _seen(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _label_problems(all_labels: Sequence[Mapping[str, str]]) -> Iterator[str]:
    seen: set[frozenset[tuple[str, str]]] = set()
    for labels in all_labels:
        for name in labels:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("__"):
                yield f"{_seen(name)} is no name of a label; use letters, digits and '_'"
        if labels.keys() != all_labels[0].keys():
            first, other = (", ".join(sorted(one)) or "none" for one in (all_labels[0], labels))
            first, other = first[:_SHOWN], other[:_SHOWN]
            yield f"its series have different labels, {first} and {other}; give all the same"
        values = frozenset(labels.items())
        if values in seen:
            yield f"two of its series have the labels {_seen(dict(labels))}; add them up"
        seen.add(values)


#: Of a name that is wrong in itself, so much is told.
NAME_SHOWN = 100
#: Why a metric was left out, as keys of what was logged.
BAD, TAKEN = "bad", "taken"

Ask = Callable[[], Sequence[Metric]]
#: By controller, what to call for its metrics now; that may raise.
Offers = Mapping[str, Ask]
#: By controller, its metrics at one moment.
Told = Mapping[str, Sequence[Metric]]


class PluginMetrics:
    """
    Asks controllers for their metrics.

    Prometheus refuses a whole scrape for one bad line, so a bad metric is left out and the others
    are shown. Each mistake is logged once, whatever its text, which may differ at
    every scrape.
    """

    def __init__(self) -> None:
        #: By controller, exceptions out of its `kcm_metrics`.
        self.errors: dict[str, int] = {}
        # One for each thread: a scrape is asked for on the loop and shown beside it.
        self._failed = OncePerFact()
        self._left_out = OncePerFact()

    def asked(self, offers: Offers) -> Told:
        """
        Give what each controller tells, right or wrong.

        Belongs to the event loop, so it does no more than it must: what comes out is a copy, which
        any thread may check and show.
        """
        return {name: self._answer(name, ask) for name, ask in offers.items()}

    def shown(self, told: Told, *, taken: Iterable[str]) -> Iterator[Metric]:
        """
        Give the metrics that are right and whose names nobody else has; `taken` are the host's.

        Belongs to the thread of the pages. Of controllers that use one name, the one that comes
        first by its own name has it.
        """
        owners = dict.fromkeys(taken, "the host")
        for controller, metrics in sorted(told.items()):
            for metric in self._sound(controller, metrics):
                owner = owners.get(metric.name)
                if owner is None:
                    owners[metric.name] = f"controller '{controller}'"
                    yield metric
                else:
                    problem = f"{owner} has a metric of that name"
                    self._leave_out(TAKEN, controller, metric.name, problem)

    def _sound(self, controller: str, metrics: Iterable[Metric]) -> Iterator[Metric]:
        for metric in metrics:
            problem = problem_of(metric)
            if problem:
                self._leave_out(BAD, controller, str(metric.name)[:NAME_SHOWN], problem)
            else:
                yield metric

    def _answer(self, controller: str, ask: Ask) -> Sequence[Metric]:
        try:
            return tuple(map(copy_of, ask()))
        except PLUGIN_FAILURES as error:
            self.errors[controller] = self.errors.get(controller, 0) + 1
            text = str(error) if isinstance(error, HostError) else one_line(error)
            if self._failed.say((controller, type(error).__name__), ""):
                pairs = {"controller": controller, "error": text}
                log.warning("a controller's metrics failed", extra={"kv": pairs})
            return ()

    def _leave_out(self, why: str, controller: str, name: str, problem: str) -> None:
        if self._left_out.say((why, controller, name), ""):
            pairs = {"controller": controller, "metric": name, "problem": problem}
            log.warning("a metric is left out", extra={"kv": pairs})
