"""A namespace whose pods come and go, its four quotas, and what these should say after each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bench import pods, quotas
from bench.calls import Call
from bench.clones import new_uid, put, stored
from bench.stage import Stage

NAMESPACE = "churn"
CLASS = "bench-usual"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
# One pod in eight is of best effort; all others have the priority class.
LIGHT_OF = 8
EVERY, LASTING, LIGHT, CLASSED = "every", "lasting", "light", "classed"
# A pod that was there counts with so many bytes, a new one with one more: so the sum tells how
# many new ones are in it, and the number of pods then tells how many old ones are not. With the
# other two scopes a quota may limit nothing that a pod of best effort could have.
BYTES = 1_000
TELLING = {EVERY: "requests.ephemeral-storage", CLASSED: "requests.memory"}


def _limits(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "1G")


SPECS: Mapping[str, Mapping[str, Any]] = {
    EVERY: {"hard": _limits("pods", "count/pods", TELLING[EVERY])},
    LASTING: {"hard": _limits("pods"), "scopes": ["NotTerminating"]},
    LIGHT: {"hard": _limits("pods"), "scopes": ["BestEffort"]},
    CLASSED: {
        "hard": _limits("pods", "requests.cpu", TELLING[CLASSED]),
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": [CLASS]}
            ]
        },
    },
}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many new pods a quota counts, and how many old ones it no longer counts."""

    made: int = 0
    gone: int = 0

    def one_more(self, created: bool) -> "Counts":
        """Return the counts after one pod more was created, or else deleted."""
        return Counts(self.made + created, self.gone + (not created))


@dataclass(frozen=True, slots=True)
class Event:
    """One pod that comes or goes, and what each of the quotas should count after it."""

    creates: bool
    light: bool
    call: Call
    after: Mapping[str, Counts]

    @property
    def concerned(self) -> Sequence[str]:
        """The quotas that the pod is in the scope of."""
        return _concerned(light=self.light)


def _concerned(*, light: bool) -> Sequence[str]:
    return EVERY, LASTING, LIGHT if light else CLASSED


def load(stage: Stage, count: int) -> None:
    """Put a namespace with so many running pods on the stage, without quotas."""
    body = {"metadata": {"name": CLASS}, "value": 1_000}
    stage.calls.one(Call("POST", CLASSES, body))
    pods.create_namespaces(stage, [NAMESPACE])
    for light, number in ((True, lights(count)), (False, count - lights(count))):
        first = _name(0, light=light)
        uid = pods.create_running(stage, NAMESPACE, _pod(first, light=light, size=BYTES))
        pattern = stored(stage.etcd, f"/pods/{NAMESPACE}/{first}")
        names = (_name(each, light=light) for each in range(1, number))
        put(stage.etcd, (pattern.copied({first: name, uid: new_uid()}) for name in names))


def create_quotas(stage: Stage) -> None:
    """Create the four quotas; each still has to get its first status."""
    stage.calls.all([quotas.creation(NAMESPACE, name, spec) for name, spec in SPECS.items()])


def events(count: int) -> Sequence[Event]:
    """Return so many creations and deletions in turn, an eighth of both of best effort."""
    return list(_events(count))


def _events(count: int) -> Iterator[Event]:
    after = dict.fromkeys(SPECS, Counts())
    usual, light_ones = iter(range(count)), iter(range(count))
    for number in range(count):
        creates, turn = number % 2 == 0, number // 2
        light = turn % LIGHT_OF == (0 if creates else LIGHT_OF // 2)
        if creates:
            call = pods.creation(NAMESPACE, _pod(f"new-{number:05}", light=light, size=BYTES + 1))
        else:
            old = next(light_ones if light else usual)
            call = pods.deletion(NAMESPACE, _name(old, light=light))
        more = {quota: after[quota].one_more(creates) for quota in _concerned(light=light)}
        after = {**after, **more}
        yield Event(creates, light, call, after=after)


def before(count: int) -> Mapping[str, int]:
    """Return how many of so many loaded pods each quota counts."""
    light = lights(count)
    return {EVERY: count, LASTING: count, LIGHT: light, CLASSED: count - light}


def used(count: int, after: Mapping[str, Counts]) -> Mapping[str, quotas.Amounts]:
    """Return the right `used` of each quota, by `namespace/name`."""
    return {
        f"{NAMESPACE}/{quota}": _used(quota, before(count)[quota], after[quota]) for quota in SPECS
    }


def _used(quota: str, loaded: int, counts: Counts) -> quotas.Amounts:
    number = loaded + counts.made - counts.gone
    possible = {
        "pods": Decimal(number),
        "count/pods": Decimal(number),
        "requests.cpu": number * Decimal("0.1"),
        TELLING.get(quota, ""): Decimal(number * BYTES + counts.made),
    }
    return {resource: possible[resource] for resource in SPECS[quota]["hard"]}


def lights(count: int) -> int:
    """Return how many of so many pods are of best effort."""
    return count // LIGHT_OF


def _name(number: int, *, light: bool) -> str:
    return f"{'light' if light else 'usual'}-{number:05}"


def _pod(name: str, *, light: bool, size: int) -> dict[str, Any]:
    storage = {"ephemeral-storage": str(size)}
    if light:
        return pods.pod(name, requests=storage)
    requests = {"cpu": "100m", "memory": str(size), **storage}
    return pods.pod(name, requests=requests, priority_class=CLASS)
