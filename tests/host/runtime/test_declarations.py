"""What makes a watch another one (F-18)."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kcm_host.api import Change, Key, Kind, View, Watch
from kcm_host.runtime.discovery_poller import difference

SECRET = Kind("", "v1", "Secret", "secrets")


class Thing(msgspec.Struct, frozen=True):
    """Reads nothing."""


class Other(msgspec.Struct, frozen=True):
    """Reads nothing either."""


def keys(change: Change[Any], view: View) -> Iterable[Key]:
    """Queue nothing."""
    return []


def values(key: Key, thing: Thing) -> Iterable[str]:
    """Find nothing."""
    return []


WATCH: Watch[Any] = Watch(kind=SECRET, model=Thing, keys=keys, indexes={"a": values})


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": Kind("", "v2", "Secret", "secrets")},
        {"model": Other},
        {"namespace": "ns"},
        {"label_selector": "a=b"},
        {"field_selector": "metadata.name=a"},
        {"indexes": {}},
        {"indexes": {"b": values}},
        {"every_event": True},
        {"rest": timedelta(seconds=1)},
        {"awaited": False},
        {"whole": True},
    ],
    ids=str,
)
def test_whatever_is_declared_counts(changes: dict[str, Any]) -> None:
    """A start whose watches would be declared otherwise now is outdated (F-18)."""
    assert difference([WATCH], [replace(WATCH, **changes)])


def test_functions_made_anew_are_the_same() -> None:
    """A fresh instance gives other functions, and that is no difference (F-18)."""
    fresh = replace(WATCH, keys=lambda _change, _view: [], indexes={"a": lambda _key, _thing: []})
    assert not difference([WATCH], [fresh])
