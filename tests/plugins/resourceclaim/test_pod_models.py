"""What entries of `resourceClaims` stand for, and what is recorded of them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from plugins.resourceclaim.objects import by_name, by_template, pod
from plugins.tables import row

from kcm_host_resourceclaim.models.pod import (
    Pod,
    PodClaim,
    PodClaimStatus,
    ResolvedClaim,
    Unresolved,
    referenced_claims,
    referenced_templates,
    resolve_claim,
    statuses_to_apply,
)

OTHER = {"name": "other", "resourceClaimName": "x"}
C1 = {"name": "res", "resourceClaimName": "c1"}
C2 = {"name": "res", "resourceClaimName": "c2"}
NONE = {"name": "res"}
GENERATED, STATIC = ResolvedClaim("c1", generated=True), ResolvedClaim("c", generated=False)


@pytest.mark.parametrize(
    ("entry", "recorded", "expected"),
    [
        row("named", by_name(), [], STATIC),
        row("named, whatever is recorded", by_name(), [C1], STATIC),
        row("recorded", by_template(), [C1], GENERATED),
        row("recorded after another", by_template(), [OTHER, C1], GENERATED),
        row("recorded twice: the first", by_template(), [C1, C2], GENERATED),
        row("no claim needed", by_template(), [NONE], Unresolved.NOT_NEEDED),
        row("no claim needed, then one", by_template(), [NONE, C1], Unresolved.NOT_NEEDED),
        row("nothing recorded", by_template(), [], Unresolved.NOT_CREATED),
        row("another recorded", by_template(), [OTHER], Unresolved.NOT_CREATED),
        row("a field not known here", {"name": "res"}, [C1], Unresolved.UNSUPPORTED),
    ],
)
def test_an_entry_stands_for_a_claim(entry: Any, recorded: Any, expected: Any) -> None:
    """A claim by name or as recorded, none needed, none yet, or unsupported (section 1.3)."""
    records = msgspec.convert(recorded, tuple[PodClaimStatus, ...])
    assert resolve_claim(msgspec.convert(entry, PodClaim), records) == expected


def decoded(manifest: Mapping[str, Any]) -> Pod:
    """Return a pod as the host decodes it."""
    return msgspec.convert(manifest, Pod)


def test_references_are_found_once_each() -> None:
    """Named and generated claims, and all templates; skipped entries give none (RC-8, RC-9)."""
    found = decoded(
        pod(
            "p",
            by_name("a", "static"),
            by_template("b", "t1"),
            by_template("c", "t2"),
            by_template("d", "t1"),
            by_name("e", "static"),
            {"name": "f"},
            names={"b": "made", "d": None},
            extended="extended",
        )
    )
    assert referenced_claims(found) == ("static", "made")
    assert referenced_templates(found) == ("t1", "t2")


@pytest.mark.parametrize(
    ("recorded", "new", "expected"),
    [
        row("T-19: sorted", {}, {"b": "cb", "a": "ca"}, {"a": "ca", "b": "cb"}),
        row("T-20: all of them", {"a": "ca"}, {"b": "cb"}, {"a": "ca", "b": "cb"}),
        row("T-8: replaced", {"a": "c0"}, {"a": "c1"}, {"a": "c1"}),
        row("without a name: left out", {"a": None}, {"b": "cb"}, {"b": "cb"}),
    ],
)
def test_all_names_are_applied(recorded: Any, new: Any, expected: Any) -> None:
    """Recorded names under the new ones, sorted by entry (RC-42)."""
    records = tuple(PodClaimStatus(name, claim) for name, claim in recorded.items())
    applied = statuses_to_apply(records, new)
    assert applied == [{"name": k, "resourceClaimName": v} for k, v in expected.items()]


def test_of_two_records_the_first_is_applied() -> None:
    """What counts when an entry is read counts when it is written again (1.3, RC-42)."""
    records = (PodClaimStatus("a", "first"), PodClaimStatus("a", "second"))
    assert statuses_to_apply(records, {}) == [{"name": "a", "resourceClaimName": "first"}]


@pytest.mark.parametrize(
    ("manifest", "scheduled", "terminal", "done"),
    [
        (pod(), False, False, False),
        (pod(phase="Running", node="n"), True, False, False),
        (pod(phase="Succeeded", node="n"), True, True, True),
        (pod(phase="Failed"), False, True, True),
        (pod(phase="Unknown"), False, False, False),
        (pod(deleting=True), False, False, True),
        (pod(deleting=True, node="n", phase="Running"), True, False, False),
        (pod(deleting=True, node="n", phase="Failed"), True, True, True),
        ({"metadata": {}, "spec": {"nodeName": ""}, "status": {}}, False, False, False),
    ],
)
def test_when_a_pod_is_done(manifest: Any, scheduled: bool, terminal: bool, done: bool) -> None:
    """Terminal, or deleted before it had a node (section 1.2)."""
    found = decoded(manifest)
    assert (found.scheduled, found.terminal, found.done) == (scheduled, terminal, done)


def test_pods_without_claims_share_what_they_can() -> None:
    """Node and phase are one string for all pods, and no claims are one empty tuple."""
    texts = [msgspec.json.encode(pod(f"p{n}", node="node-1", phase="Running")) for n in range(2)]
    one, two = (msgspec.json.decode(text, type=Pod) for text in texts)
    assert one.spec.node_name is two.spec.node_name
    assert one.status.phase is two.status.phase
    assert one.resource_claim_statuses is two.resource_claim_statuses
