"""Metrics of a controller, shown under `/metrics`."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """
    One metric with all its series at one moment.

    `name` is the full name, with `_total` for counters. A series is a set of labels with a value;
    every series has the same labels.
    """

    name: str
    help: str
    type: Literal["counter", "gauge"]
    series: tuple[tuple[Mapping[str, str], float], ...]
