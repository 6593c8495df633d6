"""The shapes of what the resourceclaim controller does otherwise on purpose."""

from collections.abc import Mapping
from typing import Any

from parity.compare import NOTHING, Deviation

WRITES = ("writes", "resourceclaim")
MADE = ("create resourceclaims 201", "patch pods/status 200", "delete resourceclaims 200")
RECORDER = "ResourceClaimController"


def ended_pods_need_nothing(found: Deviation) -> bool:
    """The reference makes, records and deletes a claim of an ended pod; the host does nothing."""
    if found.ours is not NOTHING:
        return _recorded_once_more(found)
    if found.path == WRITES:
        return set(found.theirs) == set(MADE)
    records = _of(found, "pods", "status", "resourceClaimStatuses")
    return records and all(one["resourceClaimName"].endswith("<gone>") for one in found.theirs)


def pods_of_groups_are_refused(found: Deviation) -> bool:
    """The reference makes and records a claim of the pod's own; the host makes none."""
    if found.path[:2] == WRITES:
        return found.path[2] in MADE[:2] and (found.ours < found.theirs)
    if found.ours is not NOTHING:
        return _recorded_once_more(found)
    is_claim = len(found.path) == 3 and found.path[2].startswith("resourceclaims/$ns/p-")
    return is_claim or _of(found, "pods", "status", "resourceClaimStatuses")


def reserved_past_a_missing_claim(found: Deviation) -> bool:
    """The host has reserved a claim behind a missing one; the reference comes to it later."""
    if _of(found, "resourceclaims", "status", "reservedFor"):
        return found.theirs is NOTHING and len(found.ours) == 1
    return _of(found, "resourceclaims", "managedFields") and _more(
        found.ours, found.theirs, manager="kcm-host", subresource="status"
    )


def no_request_for_what_is_gone(found: Deviation) -> bool:
    """The reference deletes what its last update has deleted already."""
    return _only_theirs(found, "delete resourceclaims 404")


def no_request_that_is_refused(found: Deviation) -> bool:
    """The reference asks for a place in a claim that takes nobody."""
    return _only_theirs(found, "update resourceclaims/status 422")


def a_name_that_is_taken(found: Deviation) -> bool:
    """The host makes, records and deletes a claim; the reference tells that it cannot."""
    if found.path == ("events",):
        return found.ours == [] and all("create ResourceClaim : " in one for one in found.theirs)
    if found.theirs is not NOTHING:
        return _of(found, "pods", "managedFields") and _more(
            found.ours, found.theirs, manager=RECORDER, subresource="status"
        )
    if found.path[:2] == WRITES:
        return found.path[2] in MADE
    is_claim = len(found.path) == 3 and found.path[2].startswith("resourceclaims/$ns/p-eee")
    return is_claim or _of(found, "pods", "status", "resourceClaimStatuses")


def claims_elsewhere_are_not_taken(found: Deviation) -> bool:
    """The host makes and records a claim; the reference records one of another namespace."""
    if found.theirs is NOTHING:
        is_claim = len(found.path) == 3 and found.path[2].startswith("resourceclaims/$ns/p-res-")
        return is_claim or found.path == (*WRITES, MADE[0])
    return found.theirs == "elsewhere" and found.path[4:5] == ("resourceClaimStatuses",)


def _only_theirs(found: Deviation, what: str) -> bool:
    return found.path == (*WRITES, what) and found.ours is NOTHING and found.theirs > 0


def _recorded_once_more(found: Deviation) -> bool:
    return _of(found, "pods", "managedFields") and _more(
        found.theirs, found.ours, manager=RECORDER, subresource="status"
    )


def _of(found: Deviation, resource: str, *within: str) -> bool:
    """Return whether it is this part of an object of the resource, at some look."""
    place = found.path[0] == "looks" and found.path[3:] == within
    return place and found.path[2].startswith(f"{resource}/")


def _more(many: Any, few: Any, **about: str) -> bool:
    """Return whether there is one owner of fields more, such a one."""
    lists = isinstance(many, list) and isinstance(few, list)
    return lists and len(many) == len(few) + 1 and any(_is(one, about) for one in many)


def _is(owner: Mapping[str, Any], about: Mapping[str, str]) -> bool:
    return all(owner[key] == value for key, value in about.items())
