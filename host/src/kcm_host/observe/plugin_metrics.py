"""The metrics of plugins: collected, copied and validated."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.hooks import Metric
from kcm_host.observe.deduplication import LogOnce
from kcm_host.observe.logging import one_line

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_TYPES = ("counter", "gauge")
#: The number of characters of an invalid value or name that are shown.
MAX_SHOWN = 100


def problem_of(metric: Metric) -> str:
    """Return what is invalid in a metric and the remedy; empty when it is valid."""
    return next(_problems(metric), "")


def copy_of(metric: Metric) -> Metric:
    """Return an immutable copy of a metric; invalid parts are kept."""
    if isinstance(metric.series, str) or not isinstance(metric.series, Sequence):
        return metric
    return Metric(
        name=metric.name,
        help=metric.help,
        type=metric.type,
        series=tuple(map(_copied, metric.series)),
    )


def _copied(series: Any) -> Any:
    match series:
        case (Mapping() as labels, value):
            return dict(labels), value
        case _:
            return series


def _problems(metric: Metric) -> Iterator[str]:
    """Return all problems; each assumes that there was none before it."""
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
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _label_problems(all_labels: Sequence[Mapping[str, str]]) -> Iterator[str]:
    seen: set[frozenset[tuple[str, str]]] = set()
    for labels in all_labels:
        for name in labels:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("__"):
                yield f"{_seen(name)} is no name of a label; use letters, digits and '_'"
        if labels.keys() != all_labels[0].keys():
            first, other = (", ".join(sorted(one)) or "none" for one in (all_labels[0], labels))
            first, other = first[:MAX_SHOWN], other[:MAX_SHOWN]
            yield f"its series have different labels, {first} and {other}; give all the same"
        values = frozenset(labels.items())
        if values in seen:
            yield f"two of its series have the labels {_seen(dict(labels))}; add them up"
        seen.add(values)


#: Why a metric was omitted.
INVALID, NAME_TAKEN = "invalid", "name taken"

MetricsHook = Callable[[], Sequence[Metric]]
#: By controller, the function that returns its metrics at the moment; it may raise.
MetricsHooks = Mapping[str, MetricsHook]
#: By controller, its metrics at one moment.
Samples = Mapping[str, Sequence[Metric]]


class PluginMetrics:
    """
    Collects the metrics of controllers.

    Prometheus refuses a complete scrape for one invalid line, so an invalid metric is omitted and
    the others are shown. Each problem is logged once, whatever its text, which may differ at every
    scrape.
    """

    def __init__(self) -> None:
        #: By controller, exceptions of its `kcm_metrics`.
        self.errors: dict[str, int] = {}
        # One for each thread: samples are collected on the loop and validated beside it.
        self._failures = LogOnce()
        self._omissions = LogOnce()

    def collect(self, hooks: MetricsHooks) -> Samples:
        """
        Return the samples of each controller, valid or not.

        Belongs to the event loop, so it does as little as possible: the result is a copy, which
        any thread may validate.
        """
        return {name: self._call(name, hook) for name, hook in hooks.items()}

    def valid(self, samples: Samples, *, reserved: Iterable[str]) -> Iterator[Metric]:
        """
        Return the valid metrics with unique names; `reserved` are the names of the host.

        Belongs to the thread of the endpoints. Of several controllers that use one metric name, the
        first one by its own name keeps it.
        """
        owners = dict.fromkeys(reserved, "the host")
        for controller, metrics in sorted(samples.items()):
            for metric in self._with_valid_values(controller, metrics):
                owner = owners.get(metric.name)
                if owner is None:
                    owners[metric.name] = f"controller '{controller}'"
                    yield metric
                else:
                    problem = f"{owner} has a metric of that name"
                    self._log_omission(NAME_TAKEN, controller, metric.name, problem=problem)

    def _with_valid_values(self, controller: str, metrics: Iterable[Metric]) -> Iterator[Metric]:
        for metric in metrics:
            problem = problem_of(metric)
            if problem:
                self._log_omission(
                    INVALID, controller, str(metric.name)[:MAX_SHOWN], problem=problem
                )
            else:
                yield metric

    def _call(self, controller: str, hook: MetricsHook) -> Sequence[Metric]:
        try:
            return tuple(map(copy_of, hook()))
        except PLUGIN_FAILURES as error:
            self.errors[controller] = self.errors.get(controller, 0) + 1
            text = str(error) if isinstance(error, HostError) else one_line(error)
            if self._failures.is_new((controller, type(error).__name__)):
                pairs = {"controller": controller, "error": text}
                log.warning("kcm_metrics failed", extra={"kv": pairs})
            return ()

    def _log_omission(self, why: str, controller: str, name: str, problem: str) -> None:
        if self._omissions.is_new((why, controller, name)):
            pairs = {"controller": controller, "metric": name, "problem": problem}
            log.warning("metric omitted", extra={"kv": pairs})
