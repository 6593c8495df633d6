"""Random days of a namespace with quotas: objects come, change and go, limits change."""

from functools import partial
from random import Random
from typing import Any

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
from parity.steps import Ask, Together, create, patch, status
from parity.workload import Kinds, Move, Moves, Workload, drawn, with_looks

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
        self.random = random
        self.choice = random.choice

    def new_pod(self) -> Ask:
        spec: dict[str, Any] = {}
        if self.random.random() < 0.3:
            spec["activeDeadlineSeconds"] = 600
        if self.random.random() < 0.3:
            spec["priorityClassName"] = "$high"
        return pod(self.choice(PODS), self.choice(RESOURCES), **spec)

    def new_service(self) -> Ask:
        ports = [port(80 + number) for number in range(self.random.randint(1, 3))]
        return service(self.choice(SERVICES), self.choice(TYPES), *ports)

    def other_service(self) -> Ask:
        change: dict[str, Any] = {"type": self.choice(TYPES)}
        if self.random.random() < 0.5:
            change["ports"] = [port(80)]
        return patch(f"services/$ns/${self.choice(SERVICES)}", {"spec": change})

    def new_volume(self) -> Ask:
        spec = self.choice(({}, {"storageClassName": "gold"}))
        return volume(self.choice(VOLUMES), self.choice(("1Gi", "1500M", "100m")), **spec)

    def allocated(self) -> Ask:
        size = {"storage": self.choice(("10Gi", "1Mi"))}
        path = f"persistentvolumeclaims/$ns/${self.choice(VOLUMES)}"
        return status(path, {"allocatedResources": size})

    def plain(self) -> Together:
        return some(self.choice(("configmaps", "secrets")), self.choice(PLAIN))

    def limits_of(self, names: list[str]) -> dict[str, str | None]:
        return {name: self.choice(LIMITS if name in AMOUNTS else WHOLE) for name in names}

    def new_quota(self) -> Ask:
        name = self.choice(QUOTAS)
        if name == "scoped":
            return quota(*OF_PODS, name=name, limit="1k", **self.choice(SCOPES))
        names = self.random.sample(NAMES, self.random.randint(1, 6))
        return create(f"resourcequotas/$ns/${name}", {"spec": {"hard": self.limits_of(names)}})

    def other_limits(self) -> Ask:
        hard = self.limits_of(self.random.sample(NAMES, 2))
        hard[self.choice(NAMES)] = None
        return limits(self.choice(("q", "r")), **hard)

    def edited_by_hand(self) -> Ask:
        name, used = self.choice(("q", "r")), self.choice(("0", "1", "7", None))
        change = {"used": {self.choice(NAMES): used}}
        return status(f"resourcequotas/$ns/${name}", self.choice((change, {"used": None})))


def moves(random: Random) -> Moves:
    """Return what happens: first some of everything, then one change at a time."""
    space, choice = _Namespace(random), random.choice
    kinds: Kinds = (
        (6, space.new_pod),
        (4, lambda: phase(choice(PODS), choice(PHASES))),
        (1, lambda: patch(f"pods/$ns/${choice(PODS)}", {"spec": {"activeDeadlineSeconds": 60}})),
        (4, lambda: gone(choice(PODS))),
        (2, space.new_service),
        (2, space.other_service),
        (1, lambda: gone(choice(SERVICES), resource="services")),
        (2, space.new_volume),
        (1, space.allocated),
        (1, lambda: gone(choice(VOLUMES), resource="persistentvolumeclaims")),
        (3, space.plain),
        (2, lambda: gone(choice(PLAIN), resource=choice(("configmaps", "secrets")))),
        (3, space.new_quota),
        (3, space.other_limits),
        (1, space.edited_by_hand),
        (1, lambda: gone(choice(QUOTAS), resource="resourcequotas")),
    )

    def changes(number: int) -> Move:
        count = 3 if number == DOWN else 1
        return tuple(change for _ in range(count) for change in drawn(random, kinds, 1))

    quotas = (space.new_quota(), space.new_quota())
    first: Move = (
        create("priorityclasses/$high", {"value": 1000}),
        *(space.new_pod() for _ in range(3)),
        *(space.new_service(), space.new_volume(), space.plain()),
        *(quota("pods", "configmaps", "secrets", name="always"), *quotas),
    )
    return [first, *map(changes, range(1, MOVES + 1))]


WORKLOAD = Workload(
    "resourcequota",
    "RQ-20 to RQ-157, RQ-226 to RQ-243",
    moves,
    # Only one thing happens at a time: what admission lets in depends on what was taken off before.
    partial(with_looks, down=DOWN),
    seeds_in_tests=20,
    # Every other seed is played without admission.
    clusters=(RESYNCING, UNCOUNTED),
    options={"by_chance": BY_CHANCE},
)
