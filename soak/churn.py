"""Random changes that keep all five controllers busy, and the cluster at about one size."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from bench import claims, pods, quotas, roles
from bench.calls import MERGE, STRATEGIC, Call, Refused
from bench.stage import Stage

NODES = "/api/v1/nodes"
RANGES = "/apis/networking.k8s.io/v1/servicecidrs"
NAMESPACE = "soak"
IN_NAMESPACE = f"{pods.NAMESPACES}/{NAMESPACE}"
HARD = {"pods": "1k", "services": "1k", "count/configmaps": "1k", "count/pods": "1k"}
#: What another change made impossible in the meantime, or a fault of the moment.
EXPECTED = frozenset({404, 409, 422, 429, 500, 503})


class Churn:
    """
    Changes of one stage; `step` does one.

    Of every kind there are up to so many objects: above that one goes, below that one comes. The
    number of nodes moves around the first step of the ttl controller.
    """

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        self._numbers = iter(range(10**9))
        self._names: dict[str, list[str]] = {}
        self._moves: Mapping[Callable[[], None], int] = {
            self._node: 3,
            self._role: 2,
            self._range: 1,
            self._service: 2,
            self._config_map: 2,
            self._quota: 1,
            self._pod: 3,
            self._trainer: 4,
        }

    def prepare(self) -> None:
        """Create what the changes need: namespace, quotas, roles, template, nodes."""
        pods.create_namespaces(self._stage, [NAMESPACE])
        claims.create_template(self._stage)
        roles.create_roles(self._stage, 40)
        specs: dict[str, dict[str, Any]] = {
            "all": {"hard": HARD},
            "light": {"hard": {"pods": "1k"}, "scopes": ["BestEffort"]},
        }
        for name, spec in specs.items():
            self._send(quotas.creation(NAMESPACE, name, spec))
        for _ in range(95):
            self._come("nodes", NODES, {})

    def step(self) -> None:
        """Do one random change."""
        (move,) = self._chance.choices(list(self._moves), list(self._moves.values()))
        move()

    def _node(self) -> None:
        if self._chance.random() < 0.5:
            annotations = {"soak": str(self._chance.random())}
            self._patch("nodes", NODES, {"metadata": {"annotations": annotations}})
        else:
            self._come_or_go("nodes", NODES, {}, most=110)

    def _role(self) -> None:
        (edit,) = roles.edits(1, 40)
        number = self._chance.randrange(40)
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]}]
        body = {"rules": rules if self._chance.random() < 0.5 else edit.body["rules"]}
        self._send(Call("PATCH", f"{roles.ROLES}/{roles.PREFIX}{number:05}", body, kind=MERGE))

    def _range(self) -> None:
        spec = {
            "cidrs": [f"10.{self._chance.randrange(100, 200)}.{self._chance.randrange(255)}.0/24"]
        }
        self._come_or_go("ranges", RANGES, {"spec": spec}, most=8)

    def _service(self) -> None:
        body = {"spec": {"ports": [{"port": 80}]}}
        self._come_or_go("services", f"{IN_NAMESPACE}/services", body, most=30)

    def _config_map(self) -> None:
        self._come_or_go("configmaps", f"{IN_NAMESPACE}/configmaps", {}, most=30)

    def _quota(self) -> None:
        hard = {**HARD, "pods": f"{self._chance.randrange(1, 9)}k"}
        path = f"{IN_NAMESPACE}/resourcequotas/all"
        self._send(Call("PATCH", path, {"spec": {"hard": hard}}, kind=MERGE))

    def _pod(self) -> None:
        body = pods.pod("", requests=self._chance.choice(({}, {"cpu": "100m"})))
        self._come_or_go("pods", f"{IN_NAMESPACE}/pods", body, most=40)

    def _trainer(self) -> None:
        """Move a pod with a claim one step on: made, allocated, done, gone."""
        trainers = self._names.setdefault("trainers", [])
        if len(trainers) < 30 or self._chance.random() < 0.3:
            self._come("trainers", claims.PODS, claims.pod(""))
            return
        name = self._chance.choice(trainers)
        match self._chance.choice(("allocated", "done", "gone")):
            case "allocated":
                self._allocate()
            case "done":
                done = {"status": {"phase": "Succeeded"}}
                self._send(Call("PATCH", f"{claims.PODS}/{name}/status", done, kind=STRATEGIC))
            case "gone":
                self._go("trainers", claims.PODS, name)
                self._collect_garbage()

    def _allocate(self) -> None:
        """Do a scheduler's part for all claims that are not allocated yet."""
        answer = self._send(Call("GET", claims.CLAIMS))
        free = [each for each in answer["items"] if not each.get("status", {}).get("allocation")]
        protection = {"metadata": {"finalizers": [claims.FINALIZER]}}
        for claim in free:
            path = f"{claims.CLAIMS}/{claim['metadata']['name']}"
            owner = claim["metadata"]["ownerReferences"][0]
            device = {"driver": "device.example", "pool": "all", "device": owner["uid"][:8]}
            results = [{"request": claims.REQUEST, **device}]
            consumer = {"resource": "pods", "name": owner["name"], "uid": owner["uid"]}
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
            self._send(Call("PATCH", path, protection, kind=MERGE))
            self._send(Call("PATCH", f"{path}/status", {"status": status}, kind=MERGE))

    def _collect_garbage(self) -> None:
        """Delete claims whose pod is gone: no garbage collector runs here."""
        answer, living = self._send(Call("GET", claims.CLAIMS)), self._names["trainers"]
        for claim in answer["items"]:
            if claim["metadata"]["ownerReferences"][0]["name"] not in living:
                self._send(Call("DELETE", f"{claims.CLAIMS}/{claim['metadata']['name']}"))

    def _come_or_go(self, sort: str, path: str, body: Mapping[str, Any], *, most: int) -> None:
        known = self._names.setdefault(sort, [])
        if len(known) < most and (not known or self._chance.random() < 0.6):
            self._come(sort, path, body)
        else:
            self._go(sort, path, self._chance.choice(known))

    def _come(self, sort: str, path: str, body: Mapping[str, Any]) -> None:
        name = f"{sort}-{next(self._numbers)}"
        metadata = {**body.get("metadata", {}), "name": name}
        if self._send(Call("POST", path, {**body, "metadata": metadata})):
            self._names.setdefault(sort, []).append(name)

    def _go(self, sort: str, path: str, name: str) -> None:
        self._send(Call("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0}))
        self._names[sort].remove(name)

    def _patch(self, sort: str, path: str, body: Mapping[str, Any]) -> None:
        name = self._chance.choice(self._names[sort])
        self._send(Call("PATCH", f"{path}/{name}", body, kind=STRATEGIC))

    def _send(self, call: Call) -> dict[str, Any]:
        """Send a request; return its answer, empty where it was refused for a good reason."""
        try:
            answer: dict[str, Any] = self._stage.calls.one(call)
        except Refused as refused:
            if refused.code not in EXPECTED:
                raise
            return {} if call.method != "GET" else {"items": []}
        return answer
