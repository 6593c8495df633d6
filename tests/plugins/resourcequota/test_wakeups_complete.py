"""After any changes of quotas and objects, no status stays wrong because of a missing request."""

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from plugins.resourcequota.quota_discovery import CONFIG_MAP, WIDGET
from plugins.resourcequota.quota_manifests import (
    NAMES,
    NAMESPACES,
    SCOPES,
    named,
    random_pod,
    random_service,
    random_volume_claim,
)
from worlds.completeness import check_completeness, end_watch
from worlds.objects import Object, at
from worlds.running import World

from kcm_host.api import Kind
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.evaluators.extended_resources import DEVICE_CLASS
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import PERSISTENT_VOLUME_CLAIM
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.resourceclaims import RESOURCE_CLAIM
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings

COUNTED = (POD, SERVICE, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM, CONFIG_MAP, WIDGET)
EXTENDED = "resource.kubernetes.io/extended-resource-claim"


class QuotaWorld(World):
    """A world without resync and audit of the controller, which would repair what is missed."""

    def __init__(self, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        made: list[ResourceQuota] = []
        #: How many seconds the clock of the host is ahead.
        self.ahead = 0.0

        def make(settings: QuotaSettings) -> ResourceQuota:
            wall = lambda: at(loop.time()).timestamp() + self.ahead  # noqa: E731 - one use
            made.append(ResourceQuota(settings, clock=loop.time, wall=wall))
            return made[-1]

        super().__init__(
            "resourcequota",
            chance,
            keys={RESOURCE_QUOTA: ""},
            others=[*COUNTED, DEVICE_CLASS],
            make=make,
            resyncPeriod=timedelta(0),
        )
        self._made = made

    async def missed(self) -> list[str]:
        """Return also what an audit finds: a sync reads totals and not objects."""
        audit = self._made[-1]._audit
        run = self.controller._state.run
        assert run is not None
        view = run._view
        repaired: list[tuple[str, str]] = []
        rounds = audit.rounds
        while audit.rounds == rounds:
            repaired += audit.run_slice(view, share=1.0)
        found = [f"the totals of {resource} in {namespace}" for resource, namespace in repaired]
        return [*found, *await super().missed()]


def make_world(chance: random.Random) -> World:
    """Return a world with some quotas and objects."""
    world = QuotaWorld(chance)
    for _ in range(chance.choice((0, 3, 12))):
        chance.choice((create, create, change_quota, declare))(world, chance)
    return world


def claim(chance: random.Random) -> Object:
    """Return a resource claim; the status of a pod may name it."""
    how = {"allocationMode": chance.choice(("ExactCount", "All")), "count": chance.randint(1, 3)}
    request = {"exactly": {"deviceClassName": chance.choice(("gpu", "fpga")), **how}}
    made = named(chance.choice("cde"), chance.choice(NAMESPACES))
    made["spec"] = {"devices": {"requests": [request]}}
    return made


def drawn(kind: Kind, chance: random.Random) -> Object:
    """Return a random object of a kind."""
    makers: dict[Kind, Callable[[random.Random], Object]] = {
        POD: random_pod,
        SERVICE: random_service,
        PERSISTENT_VOLUME_CLAIM: random_volume_claim,
        RESOURCE_CLAIM: claim,
    }
    if kind in makers:
        return makers[kind](chance)
    return named(chance.choice("mno"), chance.choice(NAMESPACES))


def present(world: World, chance: random.Random, *kinds: Kind) -> tuple[Kind, Object]:
    """Return one of the existing objects, with its kind."""
    kind = chance.choice(kinds)
    return kind, chance.choice(list(world[kind].all()))


def described(what: str, kind: Kind, each: Object) -> str:
    """Return the description of a change of an object."""
    meta = each["metadata"]
    return f"{what}: {kind.resource} {meta.get('namespace', '')}/{meta['name']}"


def create(world: World, chance: random.Random) -> str:
    """Create an object, or recreate one under its name."""
    kind = chance.choice(COUNTED)
    made = drawn(kind, chance)
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    pods = list(world[POD].all())
    if kind == RESOURCE_CLAIM and pods and chance.random() < 0.6:
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        meta = chance.choice(pods)["metadata"]
        owner |= {"name": meta["name"], "uid": meta["uid"]}
        namespace = meta["namespace"]
        made["metadata"] |= {"annotations": {EXTENDED: "true"}, "ownerReferences": [owner]}
    if chance.random() < 0.2:
        made["metadata"]["finalizers"] = ["example.com/later"]
        made["metadata"]["deletionGracePeriodSeconds"] = 3
    if world[kind].get(name, namespace) is not None:
        world[kind].delete(name, namespace)
    if world[kind].get(name, namespace) is not None:
        return ""
    return described("created", kind, world[kind].create(made, namespace))


def delete(world: World, chance: random.Random) -> str:
    """Delete an object; one with a finalizer only gets a deletion timestamp."""
    kind, each = present(world, chance, *COUNTED)
    meta = each["metadata"]
    if "deletionTimestamp" in meta:
        world[kind].update({**each, "metadata": {**meta, "finalizers": []}})
    else:
        world[kind].delete(meta["name"], meta["namespace"])
    return described("deleted", kind, each)


def change(world: World, chance: random.Random) -> str:
    """Return an object the fields of another one."""
    kind, each = present(world, chance, POD, SERVICE, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM)
    other = drawn(kind, chance)
    world[kind].update({**each, "spec": other["spec"]})
    if "status" in other:
        body = {**each, "status": other["status"], "metadata": _name(each)}
        world[kind].update(body, "status")
    return described("changed", kind, each)


def status(world: World, chance: random.Random) -> str:
    """Change the phase of a pod, or expand a volume claim."""
    kind, each = present(world, chance, POD, PERSISTENT_VOLUME_CLAIM)
    new: Object = {"phase": chance.choice(("Pending", "Running", "Succeeded", "Failed"))}
    if kind == PERSISTENT_VOLUME_CLAIM:
        new = {
            "allocatedResources": {"storage": chance.choice(("2Gi", "9Gi"))},
            "currentVolumeAttributesClassName": chance.choice(("gold", "silver")),
        }
    elif chance.random() < 0.3:
        new["extendedResourceClaimStatus"] = {"resourceClaimName": chance.choice("cde")}
    world[kind].update({**each, "status": new}, "status")
    return described(f"status {new}", kind, each)


def corrupt(world: World, chance: random.Random) -> str:
    """Make an object undecodable, create an undecodable one, or repair one."""
    if chance.random() < 0.2:
        world[POD].create({"metadata": {"generateName": "bad-"}, "spec": 7}, chance.choice("ab"))
        return "an undecodable pod is created"
    kind, each = present(world, chance, POD, SERVICE, PERSISTENT_VOLUME_CLAIM)
    good = isinstance(each["spec"], dict)
    world[kind].update({**each, "spec": 7 if good else drawn(kind, chance)["spec"]})
    return described("broken" if good else "repaired", kind, each)


def limits(chance: random.Random) -> Object:
    """Return what a quota limits."""
    names = chance.sample(NAMES, chance.choice((1, 2, 4)))
    return {name: chance.choice(("3", "10", "1Gi")) for name in names}


def change_quota(world: World, chance: random.Random) -> str:
    """Create a quota, change what it limits, or delete it."""
    name, namespace = chance.choice("qr"), chance.choice(NAMESPACES)
    quota = world[RESOURCE_QUOTA].get(name, namespace)
    if quota is None or chance.random() < 0.2:
        if quota is not None:
            world[RESOURCE_QUOTA].delete(name, namespace)
        spec = {"hard": limits(chance), **chance.choice(SCOPES)}
        world[RESOURCE_QUOTA].create({"metadata": {"name": name}, "spec": spec}, namespace)
        return f"quota {namespace}/{name} created: {spec}"
    if chance.random() < 0.2:
        world[RESOURCE_QUOTA].delete(name, namespace)
        return f"quota {namespace}/{name} deleted"
    quota["spec"]["hard"] = limits(chance)
    world[RESOURCE_QUOTA].update(quota)
    return f"quota {namespace}/{name} limits {quota['spec']['hard']}"


def overwrite(world: World, chance: random.Random) -> str:
    """Write the status of a quota as another writer: numbers, names, nothing, invalid text."""
    _, quota = present(world, chance, RESOURCE_QUOTA)
    used = dict((quota.get("status") or {}).get("used") or {})
    for name in list(used):
        used[name] = chance.choice((used[name], "0", "2", "5", "7", "1e3", "4096Ki"))
    other = chance.choice((used, used, used, {}, {**used, "stray": "1"}, {**used, "pods": "x"}))
    hard = chance.choice((quota["spec"]["hard"], quota["spec"]["hard"], {"pods": "1"}))
    world[RESOURCE_QUOTA].update({**quota, "status": {"hard": hard, "used": other}}, "status")
    return described(f"overwritten with {other}", RESOURCE_QUOTA, quota)


def declare(world: World, chance: random.Random) -> str:
    """Create a device class, change its resource, or delete it."""
    name = chance.choice(("gpu", "fpga"))
    spec = chance.choice(({}, {"extendedResourceName": "example.com/gpu"}))
    known = world[DEVICE_CLASS].get(name)
    if known is None:
        world[DEVICE_CLASS].create({"metadata": {"name": name}, "spec": spec})
        return f"class {name} created: {spec}"
    if chance.random() < 0.4:
        world[DEVICE_CLASS].delete(name)
        return f"class {name} deleted"
    world[DEVICE_CLASS].update({**known, "spec": spec})
    return f"class {name}: {spec}"


def set_clock(world: World, chance: random.Random) -> str:
    """Set the clock of the host forward or back."""
    assert isinstance(world, QuotaWorld)
    seconds = chance.choice((-60.0, -5.0, 5.0, 60.0))
    world.ahead += seconds
    return f"the clock is set by {seconds} s"


def cut(world: World, chance: random.Random) -> str:
    """End a watch."""
    kind = chance.choice((RESOURCE_QUOTA, DEVICE_CLASS, *COUNTED))

    def go(world: World, chance: random.Random) -> str:
        _, each = present(world, chance, kind)
        world[kind].delete(each["metadata"]["name"], each["metadata"].get("namespace", ""))
        return described("deleted", kind, each)

    return end_watch(world, chance, kind, go)


def _name(each: Object) -> dict[str, Any]:
    return {field: each["metadata"][field] for field in ("name", "namespace")}


CHANGES: Mapping[Callable[[World, random.Random], str], int] = {
    create: 10,
    delete: 6,
    change: 6,
    status: 4,
    corrupt: 3,
    change_quota: 5,
    overwrite: 3,
    declare: 4,
    set_clock: 1,
    cut: 1,
}


def test_no_wakeup_is_missed() -> None:
    """
    At a quiet moment a sync of every quota writes nothing, and a recount finds the same totals.

    F-52, RQ-B43, RQ-B1 to B8, B20 to B28; RQ-B42: the recount stands for shadow mode.
    """
    check_completeness(make_world, CHANGES)
