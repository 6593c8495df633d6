"""After random changes of ranges and addresses every ServiceCIDR is ready, blocked or gone."""

import asyncio
import random

from worlds.completeness import check_completeness, end_watch
from worlds.objects import Object, at
from worlds.running import World

from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.models import IP_ADDRESS, SERVICE_CIDR

NAMES = ("a", "b", "c", "d")
RANGES = ("10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/28", "10.0.0.0/24", "2001:db8::/124")
ADDRESSES = (*(f"10.0.0.{number}" for number in (0, 1, 7, 9, 20)), "2001:db8::1", "no-address")
LABEL = "ipaddress.kubernetes.io/"


def make_world(chance: random.Random) -> World:
    """Return a world whose clock the controller reads too: there is a grace of ten seconds."""
    loop = asyncio.get_running_loop()
    return World(
        "servicecidrs",
        chance,
        keys={SERVICE_CIDR: ""},
        others=[IP_ADDRESS],
        make=lambda: ServiceCidrs(now=lambda: at(loop.time())),
    )


def known(world: World, chance: random.Random) -> Object:
    """Return a ServiceCIDR."""
    return chance.choice(list(world[SERVICE_CIDR].all()))


def come(world: World, chance: random.Random) -> str:
    """Create a ServiceCIDR."""
    name = chance.choice(NAMES)
    ranges = chance.sample(RANGES, chance.choice((1, 1, 2)))
    world[SERVICE_CIDR].create({"metadata": {"name": name}, "spec": {"cidrs": ranges}})
    return f"create {name} {ranges}"


def delete(world: World, chance: random.Random) -> str:
    """Delete a ServiceCIDR, which stays as long as it has a finalizer."""
    name = known(world, chance)["metadata"]["name"]
    world[SERVICE_CIDR].delete(name)
    return f"delete {name}"


def edit(world: World, chance: random.Random) -> str:
    """Change ranges, finalizers, labels or the status of a ServiceCIDR."""
    found = known(world, chance)
    name = found["metadata"]["name"]
    what = chance.choice(("cidrs", "finalizers", "labels", "conditions", "undecodable"))
    if what == "conditions":
        status = chance.choice(("True", "False", "Unknown"))
        world[SERVICE_CIDR].update(
            {**found, "status": {"conditions": [{"type": "Ready", "status": status}]}}, "status"
        )
        return f"{name}: Ready={status}"
    if what == "cidrs":
        found["spec"] = {"cidrs": chance.sample(RANGES, chance.choice((1, 2)))}
    elif what == "undecodable":
        found["spec"] = {"cidrs": "no list"}
    elif what == "finalizers":
        finalizers = found["metadata"].get("finalizers", [])
        other = ["example.org/other"]
        found["metadata"]["finalizers"] = other if other[0] not in finalizers else finalizers[:1]
    else:
        found["metadata"]["labels"] = {"x": str(chance.random())}
    world[SERVICE_CIDR].update(found)
    return f"{name}: other {what}"


def address(world: World, chance: random.Random) -> str:
    """Create, change or delete an IPAddress."""
    name = chance.choice(ADDRESSES)
    labels = {
        f"{LABEL}managed-by": chance.choice(("ipallocator.k8s.io",) * 5 + ("other", 7)),
        f"{LABEL}ip-family": chance.choice(("IPv4", "IPv6") if chance.random() < 0.2 else ("IPv4",))
        if ":" not in name
        else "IPv6",
    }
    present = world[IP_ADDRESS].get(name)
    if present is None:
        world[IP_ADDRESS].create({"metadata": {"name": name, "labels": labels}})
        return f"create {name} {labels}"
    if chance.random() < 0.3:
        present["metadata"]["labels"] = labels
        world[IP_ADDRESS].update(present)
        return f"change {name} {labels}"
    world[IP_ADDRESS].delete(name)
    return f"delete {name}"


def cut(world: World, chance: random.Random) -> str:
    """End a watch."""
    kind, change = chance.choice(((SERVICE_CIDR, delete), (IP_ADDRESS, address)))
    return end_watch(world, chance, kind, change)


def test_no_wakeup_is_missed() -> None:
    """When the queue is idle, a sync of every key changes nothing (F-52, SC-20 to SC-25)."""
    check_completeness(make_world, {come: 4, delete: 3, edit: 3, address: 6, cut: 1})
