"""Where two results differ, which of that is declared, and how to tell it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from parity.result import Result
from parity.scenario import Scenario


class _Nothing:
    def __repr__(self) -> str:
        return "(nothing)"


NOTHING: Final = _Nothing()
"""What a side has where only the other has something."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One place in which the results differ."""

    path: tuple[str, ...]
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        sides = (f"    reference: {_told(self.theirs)}", f"    host:      {_told(self.ours)}")
        return "\n".join([" > ".join(self.path), *sides])


def deviations(theirs: Result, ours: Result, scenario: Scenario) -> list[Deviation]:
    """Return all places in which the results of a scenario differ; a problem is one of them."""
    return list(_within(_compared(theirs, scenario), _compared(ours, scenario), ()))


def _compared(result: Result, scenario: Scenario) -> dict[str, Any]:
    plain: dict[str, Any] = asdict(result)
    # A server that comes back refuses some requests until it knows its roles.
    if not scenario.counted or scenario.loses_server:
        plain["writes"] = {
            name: {what: "some" for what in counts if what.endswith((" 200", " 201"))}
            for name, counts in result.writes.items()
        }
        plain["refused"] = {what: times > 0 for what, times in result.refused.items()}
    return plain


def _within(theirs: Any, ours: Any, path: tuple[str, ...]) -> Iterator[Deviation]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            yield from _within(theirs.get(key, NOTHING), ours.get(key, NOTHING), (*path, key))
    elif _both_lists(theirs, ours) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _within(one, other, (*path, str(number)))
    elif theirs != ours:
        yield Deviation(path, theirs, ours)


def _both_lists(one: Any, other: Any) -> bool:
    return all(isinstance(each, Sequence) and not isinstance(each, str) for each in (one, other))


def _told(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        return value
    return repr(value) if value is NOTHING else json.dumps(value, sort_keys=True)
