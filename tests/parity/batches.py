"""Which scenarios share an API server, and playing them all."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from parity.play import play
from parity.result import Result
from parity.scenario import Scenario, asks
from parity.side import Side, TheReference

from kcm_host_testing.etcd import Etcd

#: Servers at a time: most of their time is waiting for quiet.
AT_A_TIME = 4
LARGEST = 40
TRIES_OF_RESTLESS = 3
#: How often looks that came too late are taken again, by then with less company.
TRIES_OF_LATE = 5
_ONE_AT_A_TIME = Lock()
#: Above 100 nodes the ttl controller writes other values: that is only for who is alone.
MOST_NODES = 80

Task = tuple[Side, list[Scenario]]


def batches(scenarios: Iterable[Scenario]) -> list[list[Scenario]]:
    """Return groups that can play together: the same cluster, the machine touched alike."""
    groups: dict[str, list[list[Scenario]]] = {}
    for scenario in scenarios:
        own = scenario.id if scenario.alone or scenario.restless else ""
        group = groups.setdefault(repr((scenario.cluster, scenario.machine, own)), [[]])
        if not _fits(scenario, group[-1]):
            group.append([])
        group[-1].append(scenario)
    return [batch for group in groups.values() for batch in group]


def play_all(etcd: Etcd, tasks: Sequence[Task]) -> list[dict[str, Result]]:
    """Return for each task the results of its scenarios by their id; some batches at a time."""
    parts = [
        (number, side, batch)
        for number, (side, all_) in enumerate(tasks)
        for batch in batches(all_)
    ]
    parts.sort(key=lambda part: -_length(part[2]))
    results: list[dict[str, Result]] = [{} for _ in tasks]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        played = pool.map(lambda part: _play(etcd, part[1], part[2]), parts)
        for (number, _, batch), found in zip(parts, played, strict=True):
            results[number].update(zip((one.id for one in batch), found, strict=True))
    return results


def _play(etcd: Etcd, side: Side, batch: list[Scenario]) -> list[Result]:
    tries = TRIES_OF_RESTLESS if batch[0].restless and side.name == TheReference.name else 1
    for _ in range(tries):
        results = play(etcd, side, batch)
        if not results[0].problem:
            break
    for _ in range(TRIES_OF_LATE):
        late = [number for number, found in enumerate(results) if found.late]
        if not late:
            break
        with _ONE_AT_A_TIME:
            again = play(etcd, side, [batch[number] for number in late])
        for number, found in zip(late, again, strict=True):
            results[number] = found
    return results


def _fits(scenario: Scenario, batch: list[Scenario]) -> bool:
    if not batch:
        return True
    return len(batch) < LARGEST and _nodes([*batch, scenario]) <= MOST_NODES


def _length(batch: list[Scenario]) -> float:
    """Guess how long a batch takes: those that take long begin first."""
    return max(len(one.rounds) for one in batch) + _nodes(batch) / 100


def _nodes(batch: Iterable[Scenario]) -> int:
    all_asks = [ask for one in batch for ask in asks((*one.before, *one.steps))]
    return sum(ask.verb == "create" and ask.ref.startswith("nodes/") for ask in all_asks)
