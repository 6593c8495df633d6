"""The metrics of plugins: asked for, validated and copied."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.metrics import Metric
from kcm_host.observe.logging import OncePerFact, one_line

log = logging.getLogger(__name__)

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
