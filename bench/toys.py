"""ConfigMaps of 1 KB with a value, and the annotation in which the toy controller repeats it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.calls import MERGE, NAMES_ONLY, Call
from bench.clones import clone
from bench.following import Sighting
from bench.outcome import require
from bench.stage import Stage

SEEN = "toy.example.org/seen"
NAMESPACE = "toys"
TOYS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
FIRST_VALUE = 0
TEXT = "one line of a configuration that nobody reads\n" * 22


@dataclass(frozen=True, slots=True)
class Change:
    """A new value of one ConfigMap, greater than all before."""

    name: str
    value: int

    @property
    def call(self) -> Call:
        """The request that makes the change."""
        body = {"data": {"value": str(self.value)}}
        return Call("PATCH", f"{TOYS}/{self.name}", body, kind=MERGE)


def load_toys(stage: Stage, count: int) -> Sequence[str]:
    """Put so many ConfigMaps without the annotation on the stage; give their names."""
    stage.calls.one(Call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
    names = [f"toy-{number:05}" for number in range(count)]
    first = {"metadata": {"name": names[0]}, "data": {"value": str(FIRST_VALUE), "text": TEXT}}
    uid = stage.calls.one(Call("POST", TOYS, first))["metadata"]["uid"]
    clone(stage.etcd, path_end=f"/configmaps/{NAMESPACE}/{names[0]}", uid=uid, names=names[1:])
    return names


def changes(names: Sequence[str], count: int) -> Sequence[Change]:
    """Return so many changes; each ConfigMap has its turn before one is changed again."""
    first = FIRST_VALUE + 1
    return [Change(names[number % len(names)], first + number) for number in range(count)]


def shown(toy: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is kept of a ConfigMap: its name, and as `seen` the repeated value or None."""
    metadata = toy["metadata"]
    seen = metadata.get("annotations", {}).get(SEEN)
    name = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return {"metadata": name, "seen": None if seen is None else int(seen)}


def repeated(newest: Mapping[str, Mapping[str, Any]], values: Mapping[str, int]) -> bool:
    """Return whether a watch has shown the value of each ConfigMap in its annotation."""
    return all(newest[f"{NAMESPACE}/{name}"]["seen"] == value for name, value in values.items())


def delays(
    sightings: Sequence[Sighting], made: Sequence[Change], answered_at: Sequence[float]
) -> Sequence[float]:
    """
    Return, for each change, the seconds from its answer to the annotation in the watch.

    The annotation may have the value of a later change of the same ConfigMap. Nothing, 0, when the
    watch showed it before the change was answered.
    """
    history = _history(sightings)
    return [
        max(0.0, _first(history[change.name], change.value) - answered)
        for change, answered in zip(made, answered_at, strict=True)
    ]


def require_repeated(stage: Stage, values: Mapping[str, int], *, who: str) -> None:
    """Raise `WrongOutcome` unless the annotation of each ConfigMap is its value."""
    listed = stage.calls.one(Call("GET", TOYS, accept=NAMES_ONLY))["items"]
    found = {each["metadata"]["name"]: shown(each)["seen"] for each in listed}
    wrong = [name for name, value in values.items() if found.get(name) != value]
    require(not wrong, f"{who}: {len(wrong)} of {len(values)} annotations are not the value")


def _history(sightings: Sequence[Sighting]) -> Mapping[str, Sequence[Sighting]]:
    found: dict[str, list[Sighting]] = {}
    for sighting in sightings:
        if sighting.object["seen"] is not None:
            found.setdefault(sighting.object["metadata"]["name"], []).append(sighting)
    return found


def _first(history: Sequence[Sighting], value: int) -> float:
    return next(sighting.at for sighting in history if sighting.object["seen"] >= value)
