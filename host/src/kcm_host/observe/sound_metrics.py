"""Whether Prometheus would accept a metric of a controller."""

import re
from collections.abc import Iterator, Mapping, Sequence

from kcm_host.api.metrics import Metric

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_TYPES = ("counter", "gauge")


def problem_of(metric: Metric) -> str:
    """Give what is wrong with a metric and what to do, empty when nothing is."""
    return next(_problems(metric), "")


def copy_of(metric: Metric) -> Metric:
    """Give a sound metric as one that nobody can change any more."""
    series = tuple((dict(labels), float(value)) for labels, value in metric.series)
    return Metric(metric.name, metric.help, metric.type, series)


def _problems(metric: Metric) -> Iterator[str]:
    """Give everything that is wrong; each problem assumes that there was none before."""
    if not isinstance(metric.name, str) or not _NAME.fullmatch(metric.name):
        yield "this is no name; use letters, digits and '_', with no digit first"
    if not isinstance(metric.help, str):
        yield f"its help is {metric.help!r}; give a sentence"
    if metric.type not in _TYPES:
        yield f"its type is {metric.type!r}; give 'counter' or 'gauge'"
    if metric.type == "counter" and not metric.name.endswith("_total"):
        yield "it is a counter; let its name end with '_total'"
    if isinstance(metric.series, str) or not isinstance(metric.series, Sequence):
        yield f"its series are a {type(metric.series).__name__}; give a tuple"
    for one in metric.series:
        yield from _series_problems(one)
    yield from _label_problems([labels for labels, _ in metric.series])


def _series_problems(series: object) -> Iterator[str]:
    match series:
        case (Mapping() as labels, int() | float()):
            for name, value in labels.items():
                if not isinstance(value, str):
                    yield f"label {name!r} is {value!r}; give a string"
        case _:
            yield f"a series is {series!r}; give a pair of labels and number"


def _label_problems(all_labels: Sequence[Mapping[str, str]]) -> Iterator[str]:
    seen: set[frozenset[tuple[str, str]]] = set()
    for labels in all_labels:
        for name in labels:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("__"):
                yield f"{name!r} is no name of a label; use letters, digits and '_'"
        if labels.keys() != all_labels[0].keys():
            first, other = (", ".join(sorted(one)) or "none" for one in (all_labels[0], labels))
            yield f"its series have different labels, {first} and {other}; give all the same"
        values = frozenset(labels.items())
        if values in seen:
            yield f"two of its series have the labels {dict(labels)}; add them up"
        seen.add(values)
