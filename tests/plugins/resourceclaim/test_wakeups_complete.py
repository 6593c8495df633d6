"""After random changes of pods, claims, templates and PodGroups every due key is queued."""

import random
from collections.abc import Mapping
from typing import Any

from worlds.completeness import Change, check_completeness, end_watch
from worlds.objects import Object
from worlds.running import World

from kcm_host.api import Kind
from kcm_host_resourceclaim.models.claim import FINALIZER, POD_CLAIM_NAME
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS

CLAIM = Kind(group="resource.k8s.io", version="v1", name="ResourceClaim", resource="resourceclaims")
TEMPLATE = Kind(
    group="resource.k8s.io",
    version="v1",
    name="ResourceClaimTemplate",
    resource="resourceclaimtemplates",
)
GROUP = POD_GROUPS[0]
SWITCHES: list[dict[str, Any]] = [
    {},
    {"genericWorkload": True},
    {"genericWorkload": True, "workloadClaims": True},
]
NAMESPACE = "ns"
PODS, CLAIMS = ("p", "q", "r", "s"), ("c", "d", "e")
TEMPLATES, GROUPS, ENTRIES = ("t", "u"), ("g", "h"), ("one", "two")
PHASES = ("Pending", "Running", "Running", "Succeeded", "Failed")


def make_world(chance: random.Random) -> World:
    """Return a world with a few objects of each kind."""
    keys = {POD: "pod", CLAIM: "claim"}
    switches = chance.choice(SWITCHES)
    keys.update({GROUP: "podgroup"} if switches.get("workloadClaims") else {})
    others = (TEMPLATE,) if GROUP in keys else (TEMPLATE, GROUP)
    world = World("resourceclaim", chance, keys=keys, others=others, **switches)
    for come in (template_comes, claim_comes, group_comes, pod_comes):
        come(world, chance)
    return world


def some(world: World, chance: random.Random, *kinds: Kind) -> Object:
    """Return one object of one of these kinds."""
    return chance.choice(list(world[chance.choice(kinds)].all()))


def create(world: World, kind: Kind, name: str, body: Object) -> str:
    """Create an object if its name is free."""
    body.setdefault("metadata", {})["name"] = name
    world[kind].create(body, NAMESPACE)
    return f"{kind.resource}/{name} comes: {body}"


def write(world: World, kind: Kind, found: Object, subresource: str = "") -> str:
    """Write an object that was changed."""
    world[kind].update(found, subresource)
    return f"{kind.resource}/{found['metadata']['name']} is now {found}"


def entries(chance: random.Random) -> list[Object]:
    """Return entries for claims, by template or by name."""
    made = []
    for name in chance.sample(ENTRIES, chance.choice((0, 1, 1, 2))):
        if chance.random() < 0.6:
            made.append({"name": name, "resourceClaimTemplateName": chance.choice(TEMPLATES)})
        else:
            made.append({"name": name, "resourceClaimName": chance.choice(CLAIMS)})
    return made


def pod_comes(world: World, chance: random.Random) -> str:
    """A pod is created, with a node or without."""
    spec: Object = {"resourceClaims": entries(chance)}
    if chance.random() < 0.5:
        spec["nodeName"] = "n"
    if chance.random() < 0.3:
        spec["schedulingGroup"] = {"podGroupName": chance.choice(GROUPS)}
    return create(world, POD, chance.choice(PODS), {"spec": spec})


def template_comes(world: World, chance: random.Random) -> str:
    """A template is created."""
    spec = {"spec": {"devices": {"requests": [{"name": chance.choice("xyz")}]}}}
    return create(world, TEMPLATE, chance.choice(TEMPLATES), {"spec": spec})


def group_comes(world: World, chance: random.Random) -> str:
    """A PodGroup is created."""
    return create(
        world, GROUP, chance.choice(GROUPS), {"spec": {"resourceClaims": entries(chance)}}
    )


def claim_comes(world: World, chance: random.Random) -> str:
    """A claim is created: a user's, or one with an owner and an entry."""
    metadata: Object = {}
    if chance.random() < 0.4:
        metadata["finalizers"] = [FINALIZER]
    owners = list(world[chance.choice((POD, POD, GROUP))].all())
    if owners and chance.random() < 0.6:
        owned = chance.choice(owners)
        metadata["ownerReferences"] = [owner(owned, chance)]
        metadata["annotations"] = {POD_CLAIM_NAME: chance.choice(ENTRIES)}
    name = chance.choice((*CLAIMS, "adopted", "extended"))
    return create(world, CLAIM, name, {"metadata": metadata, "spec": {}, "status": {}})


def owner(found: Object, chance: random.Random) -> Object:
    """Return the reference to an owner, sometimes to its predecessor."""
    uid = found["metadata"]["uid"] if chance.random() < 0.8 else "uid-of-a-predecessor"
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "name": found["metadata"]["name"],
        "uid": uid,
        "controller": True,
    }


def consumer(found: Object, chance: random.Random) -> Object:
    """Return a consumer: a pod or PodGroup, its predecessor, or something foreign."""
    made: Object = {"resource": "pods", "name": found["metadata"]["name"]}
    made["uid"] = found["metadata"]["uid"] if chance.random() < 0.9 else "uid-of-a-predecessor"
    if found["kind"] == "PodGroup":
        made.update(apiGroup="scheduling.k8s.io", resource="podgroups")
    elif chance.random() < 0.05:
        made["apiGroup"] = "foreign.example.com"
    return made


def claim_is_used(world: World, chance: random.Random) -> str:
    """The scheduler allocates a claim and reserves it for any pods."""
    found = some(world, chance, CLAIM)
    status = found.setdefault("status", {})
    status["allocation"] = {"devices": {}}
    users = [some(world, chance, POD, POD, POD, GROUP) for _ in range(2)]
    wanted = [consumer(each, chance) for each in users]
    status["reservedFor"] = wanted[: chance.choice((0, 1, 1, 2))]
    return write(world, CLAIM, found, "status")


def claim_is_protected(world: World, chance: random.Random) -> str:
    """The scheduler, or somebody else, adds a finalizer, or removes all."""
    found = some(world, chance, CLAIM)
    if "deletionTimestamp" in found["metadata"]:
        return ""
    found["metadata"]["finalizers"] = chance.choice(([FINALIZER], ["a/b", FINALIZER], ["a/b"], []))
    return write(world, CLAIM, found)


def claim_changes_hands(world: World, chance: random.Random) -> str:
    """A claim gets another owner or annotation, or loses them."""
    found = some(world, chance, CLAIM)
    owned = some(world, chance, POD, POD, GROUP)
    meta = found["metadata"]
    meta["ownerReferences"] = [owner(owned, chance)] if chance.random() < 0.7 else []
    meta["annotations"] = {POD_CLAIM_NAME: chance.choice(ENTRIES)} if chance.random() < 0.8 else {}
    return write(world, CLAIM, found)


def pod_is_bound(world: World, chance: random.Random) -> str:
    """A pod gets its node."""
    found = some(world, chance, POD)
    found["spec"]["nodeName"] = "n"
    return write(world, POD, found)


def pod_moves_on(world: World, chance: random.Random) -> str:
    """A pod begins, ends, or reports a field that is not read."""
    found = some(world, chance, POD)
    found.setdefault("status", {})["phase"] = chance.choice(PHASES)
    if chance.random() < 0.2:
        found["status"]["message"] = str(chance.random())
    return write(world, POD, found, "status")


def record_changes(world: World, chance: random.Random) -> str:
    """Somebody writes the recorded claims of a pod or PodGroup."""
    kind = chance.choice((POD, POD, GROUP))
    found = some(world, chance, kind)
    known = [each["metadata"]["name"] for each in world[CLAIM].all()]
    records: list[Any] = [
        {"name": entry, "resourceClaimName": chance.choice([*known, "gone"])}
        for entry in chance.sample(ENTRIES, chance.choice((0, 1, 2)))
    ]
    if records and chance.random() < 0.1:
        del records[0]["resourceClaimName"]
    found.setdefault("status", {})["resourceClaimStatuses"] = records
    return write(world, kind, found, "status")


def something_goes(world: World, chance: random.Random) -> str:
    """An object is deleted; pods with a finalizer stay for a while."""
    kind = chance.choice((POD, POD, POD, CLAIM, CLAIM, TEMPLATE, GROUP))
    found = some(world, chance, kind)
    name = found["metadata"]["name"]
    if kind == POD and chance.random() < 0.4 and "deletionTimestamp" not in found["metadata"]:
        found["metadata"]["finalizers"] = ["a/b"]
        world[kind].update(found)
    world[kind].delete(name, NAMESPACE)
    return f"{kind.resource}/{name} is deleted"


def deletion_ends(world: World, chance: random.Random) -> str:
    """The last finalizer of an object that is being deleted is removed."""
    kinds = (POD, CLAIM, GROUP)
    doomed = [
        (kind, each)
        for kind in kinds
        for each in world[kind].all()
        if "deletionTimestamp" in each["metadata"]
    ]
    kind, found = chance.choice(doomed)
    found["metadata"]["finalizers"] = []
    world[kind].update(found)
    return f"{kind.resource}/{found['metadata']['name']} is gone"


def something_is_replaced(world: World, chance: random.Random) -> str:
    """An object is recreated under its name."""
    kind = chance.choice((POD, POD, POD, CLAIM, GROUP))
    found = some(world, chance, kind)
    if found["metadata"].get("finalizers"):
        return ""
    name = found["metadata"]["name"]
    world[kind].delete(name, NAMESPACE)
    body = {"spec": found["spec"], "metadata": {}}
    if kind == CLAIM and chance.random() < 0.5:
        body["metadata"] = {
            key: found["metadata"][key]
            for key in ("ownerReferences", "annotations")
            if key in found["metadata"]
        }
    return "replaced: " + create(world, kind, name, body)


def watch_ends(world: World, chance: random.Random) -> str:
    """A watch ends."""
    kind = chance.choice((POD, CLAIM, TEMPLATE, GROUP))
    changes = (something_goes, something_is_replaced, pod_comes, claim_comes)
    return end_watch(world, chance, kind, *changes)


CHANGES: Mapping[Change, int] = {
    pod_comes: 5,
    template_comes: 2,
    group_comes: 2,
    claim_comes: 4,
    claim_is_used: 8,
    claim_is_protected: 3,
    claim_changes_hands: 2,
    pod_is_bound: 3,
    pod_moves_on: 6,
    record_changes: 2,
    something_goes: 5,
    deletion_ends: 3,
    something_is_replaced: 3,
    watch_ends: 2,
}


def test_no_wakeup_is_missed() -> None:
    """When the queue is idle, a sync of every key writes nothing (F-50, F-51, F-52)."""
    check_completeness(make_world, CHANGES)
