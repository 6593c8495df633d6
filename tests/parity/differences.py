"""The declared Differences: rule, reason, and the exact shape that each may take."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from parity import claim_shapes
from parity.compare import NOTHING, Deviation
from parity.scenarios import ranges

TTL = "node.alpha.kubernetes.io/ttl"
PROGRAMS = ("kube-controller-manager", "kcm-host")
USED = "f:status f:used f:"
TTL_VALUES = ("0", "15", "30", "60", "300")


@dataclass(frozen=True, slots=True)
class Difference:
    """
    Something that the host does otherwise on purpose.

    It excuses what has its shape and nothing else: in the scenarios that name it, which then have
    to show it, or, with `everywhere`, in all.
    """

    name: str
    rule: str
    reason: str
    shape: Callable[[Deviation], bool]
    everywhere: bool = False


def _other_manager(found: Deviation) -> bool:
    place = "managedFields" in found.path and found.path[-1] == "manager"
    return place and (found.theirs, found.ours) == ("kube-controller-manager", "kcm-host")


def _nodes_right_at_once(found: Deviation) -> bool:
    """More of the same patch, or a right value where the reference has an old one."""
    if found.path == ("writes", "ttl", "patch nodes 200"):
        return bool(found.ours > (0 if found.theirs is NOTHING else found.theirs))
    if found.path[-2:] != ("annotations", TTL):
        return False
    return found.theirs in TTL_VALUES and found.ours in TTL_VALUES


def _fewer(found: Deviation) -> bool:
    """The same kind of write, fewer times but at least once, and answered well."""
    counts = found.path[0] == "writes" and found.path[-1].endswith(" 200")
    return counts and NOTHING not in (found.ours, found.theirs) and 0 < found.ours < found.theirs


def _empty_left_alone(found: Deviation) -> bool:
    """No write at all, where the reference writes a status that changes nothing."""
    if found.path != ("writes", "resourcequota") or found.ours is not NOTHING:
        return False
    return list(found.theirs) == ["update resourcequotas/status 200"]


def _users_are_told(found: Deviation) -> bool:
    """Warnings about quotas, for one of three reasons, where the reference has no Event at all."""
    told = re.compile(r"ResourceQuota \S+: Warning (NotServed|NotCounted|InvalidScopeSelector): ")
    return found.path == ("events",) and not found.theirs and all(map(told.match, found.ours))


def _settles_first(found: Deviation) -> bool:
    """More in `used` than the reference has, which has taken it off and so owns the number."""
    if found.path[-3:-1] == ("status", "used"):
        return NOTHING not in (found.theirs, found.ours) and int(found.ours) > int(found.theirs)
    if found.path[0] != "looks" or found.path[-1] != "managedFields":
        return False
    return _owned_otherwise(found) == {("the controller", "kube-apiserver")}


def _counted_by_another(found: Deviation) -> bool:
    """The same numbers in `used`, of which controller and server have written other ones."""
    if found.path[0] != "looks" or not found.path[2].startswith("resourcequotas/"):
        return False
    if found.path[3:4] == ("managedFields",) and found.path[-1] == "fields":
        return all(field.startswith(USED) for field in {*found.theirs} ^ {*found.ours})
    if found.path[3:] != ("managedFields",):
        return False
    return _owned_otherwise(found) <= set(permutations(("the controller", "kube-apiserver")))


def _owned_otherwise(found: Deviation) -> set[tuple[str | None, str | None]]:
    """Return the owners on both sides where they differ; None for all but numbers in `used`."""
    theirs, ours = _owners(found.theirs), _owners(found.ours)
    other = {field for field in theirs.keys() | ours.keys() if theirs.get(field) != ours.get(field)}
    return {
        (theirs.get(field), ours.get(field)) if field.startswith(USED) else (None, None)
        for field in other
    }


def _owners(fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return field -> manager, of an object that nobody shares a field of."""
    return {
        field: "the controller" if one["manager"] in PROGRAMS else one["manager"]
        for one in fields
        for field in one["fields"]
    }


def _fewer_too_late(found: Deviation) -> bool:
    """Fewer writes that find another object than they meant, or none."""
    if found.path[0] != "writes" or not found.path[-1].endswith((" 404", " 409")):
        return False
    return found.ours is NOTHING or (found.theirs is not NOTHING and found.ours < found.theirs)


#: The condition of a ServiceCIDR that is kept, without its type.
TERMINATING = dict(zip(("status", "reason", "message"), ranges.TERMINATING, strict=True))


def _noticed_at_once(found: Deviation) -> bool:
    """A kept ServiceCIDR has gone, or says why it is kept, before the reference notices."""
    look, last = found.path[0] == "looks", found.path[-1]
    if (
        look
        and last in TERMINATING
        and any(each.startswith("servicecidrs/") for each in found.path)
    ):
        return bool(found.ours == TERMINATING[last])
    is_gone = found.ours is NOTHING and found.theirs is not NOTHING
    if not look or not is_gone or not last.startswith("servicecidrs/"):
        return False
    reasons = [one["reason"] for one in found.theirs["status"]["conditions"]]
    return "deletionTimestamp" in found.theirs["metadata"] and reasons == ["Terminating"]


DIFFERENCES = (
    Difference(
        "manager",
        "TTL-50, H-31",
        "Where no manager is sent, the server takes it from the user agent: the program's name.",
        _other_manager,
        everywhere=True,
    ),
    Difference(
        "fewer",
        "TTL-32, CRA-15, CRA-16, SC-75",
        "The first list is complete before anything is synced, changes rest, and no key is synced "
        "before the store shows its own last write. The reference writes some objects twice.",
        _fewer,
        everywhere=True,
    ),
    Difference(
        "ttl d",
        "TTL-26",
        "A change of step queues all nodes at once; the reference waits until each changes.",
        _nodes_right_at_once,
    ),
    Difference(
        "too late",
        "RQ-30, RQ-34, RC-58, RC-62",
        "No key is synced twice at a time, nor before the store shows its own last write. The "
        "reference looks at what it has just written or deleted as it was before, and its quotas "
        "are in two queues at the start.",
        _fewer_too_late,
        everywhere=True,
    ),
    Difference(
        "counted by another",
        "RQ-15, RQ-253",
        "The server counts a request before the object is there. A resync between the two takes "
        "the number back, on either side, and then the controller counts the object.",
        _counted_by_another,
    ),
    Difference(
        "resourcequota b", "RQ-50", "A write that changes nothing is not sent.", _empty_left_alone
    ),
    Difference(
        "resourcequota c",
        "RQ-7, RQ-73",
        "Users are told by Events about names that nothing counts under, and about selectors that "
        "make no sense.",
        _users_are_told,
    ),
    Difference(
        "resourcequota g",
        "RQ-15, RQ-42, RQ-253",
        "What nobody accounts for may be a request on its way: it settles before it is taken off, "
        "also when something else is.",
        _settles_first,
    ),
    Difference(
        "servicecidrs c",
        "SC-21, SC-22, SC-24",
        "A changed label of an address, a range added to a living ServiceCIDR, and one that goes "
        "with its ServiceCIDR, free or block others at once; the reference notices at its next "
        "resync, hours later.",
        _noticed_at_once,
    ),
    Difference(
        "resourceclaim e",
        "RC-31",
        "A pod's group may be the one to have its claims, so without the switch it gets none.",
        claim_shapes.pods_of_groups_are_refused,
    ),
    Difference(
        "resourceclaim g",
        "Q-1, D-1",
        "Pods that have ended need no claims; the reference makes and deletes one.",
        claim_shapes.ended_pods_need_nothing,
    ),
    Difference(
        "resourceclaim k",
        "Q-5, D-5",
        "A missing claim has nothing to do with the next entry.",
        claim_shapes.reserved_past_a_missing_claim,
    ),
    Difference(
        "resourceclaim l",
        "Q-6, D-6",
        "A claim that went with its finalizer need not be deleted.",
        claim_shapes.no_request_for_what_is_gone,
    ),
    Difference(
        "resourceclaim o",
        "Q-9, D-9",
        "The server always refuses another consumer of a claim that is being deleted.",
        claim_shapes.no_request_that_is_refused,
    ),
    Difference(
        "resourceclaim q",
        "Q-13, D-12",
        "Each of two names keeps a character; the server refuses the reference's name for ever.",
        claim_shapes.a_name_that_is_taken,
    ),
    Difference(
        "resourceclaim x",
        "RC-10, RC-38",
        "Only a claim of the pod's own namespace is adopted: the pod cannot use another one.",
        claim_shapes.claims_elsewhere_are_not_taken,
    ),
)


def undeclared(found: Iterable[Deviation], named: Collection[str]) -> list[Deviation]:
    """Return what no Difference excuses that holds everywhere or is named."""
    known = {one.name for one in DIFFERENCES}
    if unknown := set(named) - known:
        raise ValueError(f"no Difference {sorted(unknown)}; declared are {sorted(known)}")
    allowed = [one for one in DIFFERENCES if one.everywhere or one.name in named]
    return [each for each in found if not any(one.shape(each) for one in allowed)]


def unseen(found: Iterable[Deviation], named: Collection[str]) -> list[str]:
    """Return the named Differences of which there is no trace."""
    seen = list(found)
    due = [one for one in DIFFERENCES if one.name in named]
    return [one.name for one in due if not any(map(one.shape, seen))]
