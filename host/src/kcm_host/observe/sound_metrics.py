"""Whether Prometheus would accept a metric of a controller."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm_host.api.metrics import Metric

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
