"""Whose a claim is, who may use it, and for whom it is reserved."""

from typing import Any

import msgspec
import pytest
from plugins.resourceclaim.objects import (
    FOREIGN,
    by_name,
    by_template,
    claim,
    group,
    group_user,
    pod,
    user,
)
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_resourceclaim.events_metrics import ReconcileError
from kcm_host_resourceclaim.models.claim import Claim, Consumer, is_for_group, is_for_pod
from kcm_host_resourceclaim.models.pod import Pod, PodClaim, PodGroup
from kcm_host_resourceclaim.reservation import (
    binding_target,
    is_reserved_for,
    needs_reservation,
)

P = msgspec.convert(pod(group="g"), Pod)
G = msgspec.convert(group("g", by_name("s", "c"), by_template()), PodGroup)
P_USER, G_USER = (
    Consumer("", "pods", "p", "u-p"),
    Consumer("scheduling.k8s.io", "podgroups", "g", "u-g"),
)


def decoded(**fields: Any) -> Claim:
    """Return a claim as the host decodes it."""
    return msgspec.convert(claim(**fields), Claim)


def owned(*references: dict[str, Any]) -> Claim:
    """Return a claim with these owner references."""
    return msgspec.convert({"metadata": {"ownerReferences": list(references)}}, Claim)


GROUP_OWNER = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "name": "g", "uid": "x"}


@pytest.mark.parametrize(
    ("found", "for_pod", "with_groups"),
    [
        row("its own", decoded(owner="p"), True, True),
        row("nobody's", decoded(), False, False),
        row("another pod's", decoded(owner="other"), False, False),
        row("its predecessor's", decoded(owner="p", owner_uid="old"), False, False),
        row("an owner that does not control", owned({"uid": "u-p"}), False, False),
        row(
            "the first controller counts",
            owned({"uid": "x", "controller": True}, {"uid": "u-p", "controller": True}),
            False,
            False,
        ),
        row("its group's", owned(GROUP_OWNER | {"controller": True}), False, True),
        row("another group", owned(GROUP_OWNER | {"controller": True, "name": "h"}), False, False),
        row(
            "another PodGroup kind",
            owned(GROUP_OWNER | {"controller": True, "apiVersion": "foo.io/v1"}),
            False,
            False,
        ),
    ],
)
def test_whether_a_claim_is_for_a_pod(found: Claim, for_pod: bool, with_groups: bool) -> None:
    """By the UID of the controller; with group claims also by the group's name (1.4)."""
    assert is_for_pod(found, P, workload_claims=False) is for_pod
    assert is_for_pod(found, P, workload_claims=True) is with_groups


def test_whether_a_claim_is_for_a_group() -> None:
    """By the UID of the controller alone (1.4)."""
    assert is_for_group(decoded(owner="g", owner_kind="PodGroup"), G)
    assert not is_for_group(decoded(owner="g", owner_uid="old", owner_kind="PodGroup"), G)
    assert not is_for_group(decoded(), G)


@pytest.mark.parametrize(
    ("references", "name"),
    [
        ([], None),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}], None),
        ([{"apiVersion": "v2", "kind": "Pod", "name": "a", "controller": True}], None),
        ([{"apiVersion": "v1", "kind": "Job", "name": "a", "controller": True}], None),
        ([{"apiVersion": "v1", "kind": "Pod", "name": "a", "controller": True}], "a"),
    ],
)
def test_the_owning_pod(references: Any, name: str | None) -> None:
    """The first controlling owner that is a v1 Pod (1.4)."""
    owner = owned(*references).owning_pod
    assert (owner and owner.name) == name


@pytest.mark.parametrize(
    ("consumers", "reserved", "with_groups"),
    [
        ([], False, False),
        ([user("p")], True, True),
        ([user("q")], False, False),
        ([user("p", uid="old")], False, False),
        ([FOREIGN | {"uid": "u-p"}], True, True),
        ([group_user("g") | {"uid": "other"}], False, True),
        ([group_user("h")], False, False),
    ],
)
def test_whether_a_claim_is_reserved(consumers: Any, reserved: bool, with_groups: bool) -> None:
    """By the pod's UID, or with group claims by the group's name (1.5)."""
    found = decoded(consumers=consumers, allocated=True)
    assert is_reserved_for(found, P, workload_claims=False) is reserved
    assert is_reserved_for(found, P, workload_claims=True) is with_groups


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        row("allocated", {"allocated": True}, True),
        row("T-28: not allocated", {}, False),
        row("D-9: deleting", {"allocated": True, "deleting": True}, False),
        row(
            "D-9: full",
            {"allocated": True, "consumers": [user(f"q{n}") for n in range(256)]},
            False,
        ),
        row("255", {"allocated": True, "consumers": [user(f"q{n}") for n in range(255)]}, True),
    ],
)
def test_whether_a_reservation_is_tried(fields: Any, expected: bool) -> None:
    """Not where the server would refuse it in any case (D-9, Q-9)."""
    assert needs_reservation(decoded(**fields), P, workload_claims=False) is expected


@pytest.mark.parametrize(
    ("entry", "in_group", "expected"),
    [
        row("no group", by_template(), None, P_USER),
        row("an equal entry", by_template(), G, G_USER),
        row("an equal static entry", by_name("s", "c"), G, G_USER),
        row("another template", by_template("res", "other"), G, P_USER),
        row("another name", by_template("other", "t"), G, P_USER),
        row("a claim instead of the template", by_name("res", "c"), G, P_USER),
    ],
)
def test_whom_a_claim_is_reserved_for(entry: Any, in_group: Any, expected: Consumer) -> None:
    """The group where name, claim and template are equal, else the pod (1.6)."""
    found = (Key("g", "ns"), in_group) if in_group is not None else None
    assert binding_target(Key("p", "ns"), P, msgspec.convert(entry, PodClaim), found) == expected


def test_unsupported_entries_have_no_target() -> None:
    """Of the pod always, of the group when it stands before the equal one (1.6)."""
    unknown, known = PodClaim("new"), PodClaim("res", None, "t")
    with pytest.raises(ReconcileError, match="none of the supported fields are set"):
        binding_target(Key("p", "ns"), P, unknown, None)
    before = msgspec.convert(group("g", {"name": "new"}, by_template()), PodGroup)
    with pytest.raises(ReconcileError, match="'new'"):
        binding_target(Key("p", "ns"), P, known, (Key("g", "ns"), before))
    after = msgspec.convert(group("g", by_template(), {"name": "new"}), PodGroup)
    assert binding_target(Key("p", "ns"), P, known, (Key("g", "ns"), after)) == G_USER


def test_a_pod_as_consumer_is_written_without_group() -> None:
    """The core group is left out, that of PodGroups is not (T-26, T-74)."""
    assert msgspec.to_builtins(P_USER) == user("p")
    assert msgspec.to_builtins(G_USER) == group_user("g")
