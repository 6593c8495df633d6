"""Random days of a namespace with quotas: objects come, change and go, limits change."""

from collections.abc import Callable
from random import Random
from typing import Any

from parity.scenario import Scenario
from parity.scenarios.quotas import (
    BY_CHANCE,
    CPU,
    RESYNCING,
    UNCOUNTED,
    asking,
    gone,
    limits,
    phase,
    pod,
    port,
    quota,
    scope,
    service,
    some,
    volume,
)
from parity.steps import Ask, Look, Machine, Quiet, Refuse, Step, Together, create, patch, status
from parity.workload import Move, Moves, Workload

GOLD = "gold.storageclass.storage.k8s.io/requests.storage"
GPU = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
#: Names that quotas mention; each pod, service and so on is counted under some of them.
NAMES = (
    *("pods", "count/pods", "cpu", "requests.cpu", "limits.cpu", "memory", "limits.memory"),
    *("requests.example.com/gpu", "requests.ephemeral-storage", "hugepages-2Mi"),
    *("services", "services.nodeports", "services.loadbalancers"),
    *("persistentvolumeclaims", "requests.storage", GOLD),
    *("configmaps", "count/configmaps", "secrets", "resourcequotas", "count/deployments.apps"),
)
OF_PODS = ("pods", "cpu", "requests.memory", "limits.cpu")
AMOUNTS = ("cpu", "requests.cpu", "limits.cpu", "memory", "limits.memory", "requests.storage")
#: Some are low enough to be reached.
LIMITS = ("0", "500m", "3", "2Gi", "1k", "10Ti")
WHOLE = ("0", "1", "3", "5", "1k")
RESOURCES: tuple[dict[str, Any], ...] = (
    {},
    CPU,
    GPU,
    asking(cpu="1500m"),
    asking(memory="100M", cpu="1"),
    {"requests": {"memory": "200Mi"}, "limits": {"memory": "300Mi"}},
    asking(**{"ephemeral-storage": "1Gi"}),
)
SCOPES: tuple[dict[str, Any], ...] = (
    {"scopes": ["Terminating"]},
    {"scopes": ["NotTerminating"]},
    {"scopes": ["NotTerminating", "NotBestEffort"]},
    {"scopes": ["NotBestEffort"]},
    {"scopeSelector": scope("PriorityClass", "In", "$high")},
    {"scopeSelector": scope("PriorityClass", "DoesNotExist")},
)
PHASES = ("Running", "Running", "Succeeded", "Failed", "Unknown")
PODS = [f"p{number}" for number in range(6)]
SERVICES, VOLUMES, PLAIN, QUOTAS = ("s0", "s1"), ("v0", "v1"), ("a", "b", "c"), ("q", "r", "scoped")
TYPES = ("ClusterIP", "NodePort", "LoadBalancer")
MOVES = 10
#: During this move the controllers are down.
DOWN = 5


class _Namespace:
    """Draws changes of what is in a namespace."""

    def __init__(self, random: Random) -> None:
        self._choice = random.choice
        self._random = random

    def pod(self) -> Ask:
        spec: dict[str, Any] = {}
        if self._random.random() < 0.3:
            spec["activeDeadlineSeconds"] = 600
        if self._random.random() < 0.3:
            spec["priorityClassName"] = "$high"
        return pod(self._choice(PODS), self._choice(RESOURCES), **spec)

    def phase(self) -> Ask:
        return phase(self._choice(PODS), self._choice(PHASES))

    def deadline(self) -> Ask:
        return patch(f"pods/$ns/${self._choice(PODS)}", {"spec": {"activeDeadlineSeconds": 60}})

    def no_pod(self) -> Ask:
        return gone(self._choice(PODS))

    def service(self) -> Ask:
        ports = [port(80 + number) for number in range(self._random.randint(1, 3))]
        return service(self._choice(SERVICES), self._choice(TYPES), *ports)

    def other_service(self) -> Ask:
        change: dict[str, Any] = {"type": self._choice(TYPES)}
        if self._random.random() < 0.5:
            change["ports"] = [port(80)]
        return patch(f"services/$ns/${self._choice(SERVICES)}", {"spec": change})

    def no_service(self) -> Ask:
        return gone(self._choice(SERVICES), resource="services")

    def volume(self) -> Ask:
        spec = self._choice(({}, {"storageClassName": "gold"}))
        return volume(self._choice(VOLUMES), self._choice(("1Gi", "1500M", "100m")), **spec)

    def allocated(self) -> Ask:
        size = {"storage": self._choice(("10Gi", "1Mi"))}
        name = self._choice(VOLUMES)
        return status(f"persistentvolumeclaims/$ns/${name}", {"allocatedResources": size})

    def no_volume(self) -> Ask:
        return gone(self._choice(VOLUMES), resource="persistentvolumeclaims")

    def plain(self) -> Together:
        return some(self._choice(("configmaps", "secrets")), self._choice(PLAIN))

    def no_plain(self) -> Ask:
        return gone(self._choice(PLAIN), resource=self._choice(("configmaps", "secrets")))

    def quota(self) -> Ask:
        name = self._choice(QUOTAS)
        if name == "scoped":
            return quota(*OF_PODS, name=name, limit="1k", **self._choice(SCOPES))
        names = self._random.sample(NAMES, self._random.randint(1, 6))
        return create(f"resourcequotas/$ns/${name}", {"spec": {"hard": self._limits(names)}})

    def other_limits(self) -> Ask:
        names = self._random.sample(NAMES, 2)
        hard: dict[str, str | None] = dict(self._limits(names))
        hard[self._choice(NAMES)] = None
        return limits(self._choice(("q", "r")), **hard)

    def edited_by_hand(self) -> Ask:
        name, used = self._choice(("q", "r")), self._choice(("0", "1", "7", None))
        change = {"used": {self._choice(NAMES): used}}
        return status(f"resourcequotas/$ns/${name}", self._choice((change, {"used": None})))

    def no_quota(self) -> Ask:
        return gone(self._choice(QUOTAS), resource="resourcequotas")

    def _limits(self, names: list[str]) -> dict[str, str]:
        return {name: self._choice(LIMITS if name in AMOUNTS else WHOLE) for name in names}


def moves(random: Random) -> Moves:
    """Return what happens: first some of everything, then one change at a time."""
    space = _Namespace(random)
    kinds: dict[Callable[[], Ask | Together], int] = {
        space.pod: 6,
        space.phase: 4,
        space.deadline: 1,
        space.no_pod: 4,
        space.service: 2,
        space.other_service: 2,
        space.no_service: 1,
        space.volume: 2,
        space.allocated: 1,
        space.no_volume: 1,
        space.plain: 3,
        space.no_plain: 2,
        space.quota: 3,
        space.other_limits: 3,
        space.edited_by_hand: 1,
        space.no_quota: 1,
    }

    def change() -> Ask | Together:
        return random.choices(list(kinds), list(kinds.values()))[0]()

    things = (space.pod, space.pod, space.pod, space.service, space.volume, space.plain)
    quotas = (quota("pods", "configmaps", "secrets", name="always"), space.quota(), space.quota())
    first: Move = (
        create("priorityclasses/$high", {"value": 1000}),
        *(draw() for draw in things),
        *quotas,
    )
    return [first, *(_times(3 if number == DOWN else 1, change) for number in range(1, MOVES + 1))]


def _times(count: int, change: Callable[[], Ask | Together]) -> Move:
    return tuple(change() for _ in range(count))


def scenario(name: str, drawn: Moves) -> Scenario:
    """
    Return the scenario of these moves, with a look after each.

    Only one thing happens at a time: what admission lets in depends on what was taken off before.
    """
    steps: list[Step] = []
    for number, move in enumerate(drawn[1:], 1):
        if number == DOWN:
            steps += [Machine.STOP, *move, Machine.START]
        else:
            steps += [*move, Look(f"after move {number}") if move else Quiet()]
    before = tuple(step for step in drawn[0] if isinstance(step, Ask | Together | Refuse))
    return Scenario(
        name,
        "resourcequota",
        "RQ-20 to RQ-157, RQ-226 to RQ-243",
        tuple(steps),
        before,
        counted=False,
        tolerant=True,
        by_chance=BY_CHANCE,
    )


WORKLOAD = Workload(
    "resourcequota",
    moves,
    scenario,
    seeds_in_tests=20,
    # Every other seed is played without admission.
    clusters=(RESYNCING, UNCOUNTED),
)
