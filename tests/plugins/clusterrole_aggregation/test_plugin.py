"""The hooks in the harness: keys, applies and status."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from plugins.tables import row

from kcm_host.api import ApiError, Change, Done, HostError, Key, Unreachable
from kcm_host_clusterrole_aggregation.models import Role
from kcm_host_clusterrole_aggregation.plugin import CLUSTER_ROLE, ClusterRoleAggregation
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector
from kcm_host_testing.harness import ControllerHarness, HarnessError

Manifest = Mapping[str, Any]

R1 = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
R2 = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
R9 = {"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"]}
AX: Manifest = {"matchLabels": {"a": "x"}}
FOO: Manifest = {"matchExpressions": [{"key": "a", "operator": "Foo"}]}
#: The debounce of a key, in milliseconds (Difference c).
REST = 100
EMPTY_IN: Manifest = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}


def role(
    *rules: Manifest,
    labels: Mapping[str, str] | None = None,
    selectors: Iterable[Manifest] | None = None,
) -> dict[str, Any]:
    """Return a role without its name; with selectors, even none, it is aggregated."""
    made: dict[str, Any] = {"metadata": {"labels": labels}, "rules": list(rules) or None}
    if selectors is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": list(selectors)}
    return made


class Cluster(ControllerHarness):
    """The controller with some roles."""

    def __init__(self, **roles: Manifest) -> None:
        self.controller = ClusterRoleAggregation()
        super().__init__(self.controller)
        for name, each in roles.items():
            self.put_role(name, each)
        self.start()

    def put_role(self, name: str, new: Manifest) -> list[str]:
        """Put one role and return the names of the keys that this queues."""
        self.enqueued.clear()
        self.put(CLUSTER_ROLE, {**new, "metadata": {**new["metadata"], "name": name}})
        return self.queued()

    def delete_role(self, name: str) -> list[str]:
        """Delete one role and return the names of the keys that this queues."""
        self.enqueued.clear()
        self.delete(CLUSTER_ROLE, name)
        return self.queued()

    def queued(self) -> list[str]:
        """Return the names of the keys that were queued last."""
        return sorted(key.name for key in self.enqueued)

    @property
    def applied(self) -> list[tuple[str, Any]]:
        """The name and the rules of each apply."""
        sent = []
        for write in self.writes:
            assert (write.verb, write.kind) == ("apply", CLUSTER_ROLE)
            assert write.field_manager == "clusterrole-aggregation-controller"
            body = dict(write.body)
            assert body.pop("kind") == "ClusterRole"
            assert body.pop("apiVersion") == "rbac.authorization.k8s.io/v1"
            assert body.pop("metadata")["name"] == write.key.name
            sent.append((write.key.name, body))
        return sent

    def rules(self, name: str) -> Any:
        """Return the present rules of a role."""
        return self.get(CLUSTER_ROLE, name).get("rules") or []


def two_of(*rules: Manifest) -> Cluster:
    """Return `agg` with these rules, selecting `s1` with R1 and R2."""
    return Cluster(agg=role(*rules, selectors=[AX]), s1=role(R1, R2, labels={"a": "x"}))


@pytest.mark.parametrize(
    ("present", "requests"),
    [
        row("CRA-T1: none yet", [], [{"rules": [R1, R2]}]),
        row("CRA-T2: right already", [R1, R2], []),
        row("CRA-T3: another order", [R2, R1], [{"rules": [R1, R2]}]),
        row("CRA-T4: edited by hand", [R9], [{"rules": [R1, R2]}]),
        row("one too many", [R1, R2, R9], [{"rules": [R1, R2]}]),
        row("one missing", [R1], [{"rules": [R1, R2]}]),
    ],
)
def test_rules_are_written_when_they_differ(present: list[Manifest], requests: Any) -> None:
    """One forced apply with the collected rules, none when they are there (CRA-27, 28, 54)."""
    cluster = two_of(*present)
    assert cluster.sync("agg") == Done()
    assert [body for _, body in cluster.applied] == requests


@pytest.mark.parametrize(
    ("present", "requests"),
    [
        row("CRA-T11: nothing to clear", [], []),
        row("CRA-T12: cleared by leaving out the key", [R1], [("agg", {})]),
    ],
)
def test_an_empty_list_of_selectors_empties_the_role(
    present: list[Manifest], requests: Any
) -> None:
    """No selector matches nothing; null rules count as empty (CRA-31, CRA-41, CRA-53)."""
    cluster = Cluster(agg=role(*present, selectors=[]), s1=role(R1))
    cluster.sync("agg")
    assert cluster.applied == requests


@pytest.mark.parametrize(
    "selectors",
    [
        row("CRA-T13: operator", [AX, FOO]),
        row("CRA-T14: no values", [EMPTY_IN]),
    ],
)
def test_an_invalid_selector_fails_the_sync(selectors: list[Manifest]) -> None:
    """Nothing is written, also not what earlier selectors matched (CRA-23, CRA-90)."""
    cluster = Cluster(agg=role(selectors=selectors), s1=role(R1, labels={"a": "x"}))
    with pytest.raises(
        InvalidSelector, match=f"'agg'.*clusterRoleSelectors.{len(selectors) - 1}.:"
    ):
        cluster.sync("agg")
    cluster.put_role("other", role(selectors=[AX]))
    with pytest.raises(HarnessError, match="failed"):
        cluster.run_until_idle()
    assert [name for name, _ in cluster.applied] == ["other"], "CRA-72"
    cluster.put_role("agg", role(selectors=[AX]))
    cluster.run_until_idle()
    assert [name for name, _ in cluster.applied] == ["other", "agg"], "corrected, it is synced"


@pytest.mark.parametrize(
    "answer",
    [
        row("CRA-T21 is not built, Difference d", ApiError("no apply", status=415)),
        row("CRA-T22: 403", ApiError("not allowed", status=403, reason="Forbidden")),
        row("CRA-T20: 500", ApiError("broken", status=500)),
        row("no answer", Unreachable("no answer")),
    ],
)
def test_an_error_answer_is_left_to_the_host(answer: HostError) -> None:
    """The same again after 5, 10 and 20 ms, and after success after 5 ms (CRA-63, 70, 71)."""
    cluster = two_of(R1, R2)
    cluster.run_until_idle()
    for rules, failures, milliseconds in (([R1], 3, 35), ([R2], 1, 5)):
        cluster.writes.clear()
        cluster.answer(answer, times=failures)
        cluster.put_role("s1", role(*rules, labels={"a": "x"}))
        start, until_idle = cluster.now, timedelta(milliseconds=2 * REST + milliseconds)
        cluster.run_until_idle()
        assert cluster.applied == [("agg", {"rules": rules})] * (failures + 1)
        assert cluster.now - start == until_idle, "one debounce for the source, one for the write"


def test_changes_during_a_sync_lead_to_one_more() -> None:
    """However many there are, the role is written once more with the last of them (CRA-T27)."""
    cluster = two_of()

    def change() -> None:
        for rules in ([R1], [R2], [R9]):
            cluster.put_role("s1", role(*rules, labels={"a": "x"}))

    cluster.before_response(change, verb="apply")
    cluster.run_until_idle()
    assert cluster.applied == [("agg", {"rules": [R1, R2]}), ("agg", {"rules": [R9]})]


def test_a_list_read_again_queues_what_it_shows() -> None:
    """A source that went meanwhile; nothing if nothing changed (CRA-T18, CRA-T26, Difference a)."""
    cluster = two_of(R1, R2)
    with cluster.disconnected():
        cluster.patch(CLUSTER_ROLE, "s1", {"metadata": {"annotations": {"a": "b"}}})
    assert cluster.queued() == ["agg"], "that of the start alone (Difference b)"
    with cluster.disconnected():
        cluster.delete_role("s1")
    assert cluster.queued() == ["agg"]


def test_a_role_that_is_gone_needs_nothing() -> None:
    """A queued key whose role was deleted ends well and without a request (CRA-21, CRA-T23)."""
    cluster = two_of()
    cluster.delete_role("agg")
    cluster.run_until_idle()
    assert [each.result for each in cluster.outcomes] == [Done()]
    assert cluster.applied == []


def test_a_role_that_is_no_longer_aggregated_keeps_its_rules() -> None:
    """Without aggregation rule there is nothing to do (CRA-12, CRA-22)."""
    cluster = two_of(R9)
    assert cluster.put_role("agg", role(R9)) == []
    cluster.run_until_idle()
    assert [each.key for each in cluster.outcomes] == [Key("agg")]
    assert cluster.rules("agg") == [R9]


def test_any_change_queues_all_aggregated_roles() -> None:
    """Whatever changed in whichever role: all aggregated roles, nothing else (CRA-10 to CRA-14)."""
    cluster = Cluster(agg1=role(selectors=[AX]), agg2=role(selectors=[]), s1=role(R1))
    assert cluster.put_role("s2", role(R2)) == ["agg1", "agg2"], "CRA-T17: an added role"
    assert cluster.put_role("s2", role(R1)) == ["agg1", "agg2"], "a changed role"
    assert cluster.delete_role("s2") == ["agg1", "agg2"], "CRA-T18: a deleted role"
    assert cluster.put_role("agg3", role(selectors=[AX])) == ["agg1", "agg2", "agg3"], "a new one"
    assert cluster.put_role("agg3", role()) == ["agg1", "agg2"], "one that lost its rule"
    assert cluster.delete_role("agg2") == ["agg1"], "one that is gone"
    assert cluster.delete_role("agg1") == []


def test_a_deletion_without_last_state_queues_all_too() -> None:
    """A role that was never cached may be reported as deleted (CRA-10, CRA-T18)."""
    cluster = two_of()
    (watch,) = cluster.controller.kcm_watches()
    gone: Change[Role] = Change(kind=CLUSTER_ROLE, key=Key("unknown"), old=None, new=None)
    assert watch.keys(gone, None) == (Key("agg"),)  # type: ignore[arg-type] # the view is not read


def test_the_initial_list_queues_each_aggregated_role_once() -> None:
    """Starting with many roles is linear: an initial object queues itself or nothing (CRA-15)."""
    roles = {f"r{n}": role(selectors=[AX]) if n % 3 == 0 else role(R1) for n in range(9)}
    cluster = Cluster(**roles)
    assert [key.name for key in cluster.enqueued] == ["r0", "r3", "r6"]
    assert cluster.put_role("r1", role(R2)) == ["r0", "r3", "r6"]


def test_a_burst_is_one_round_of_syncs() -> None:
    """Fifty events leave a key for each aggregated role, rested 100 ms (CRA-T19, Difference c)."""
    cluster = Cluster(**{f"agg{n}": role(selectors=[AX]) for n in range(3)})
    cluster.run_until_idle()
    cluster.outcomes.clear()
    for n in range(50):
        cluster.put_role(f"s{n}", role(R1))
    start = cluster.now
    cluster.run_until_idle()
    assert sorted(str(each.key) for each in cluster.outcomes) == ["agg0", "agg1", "agg2"]
    assert cluster.now - start == timedelta(milliseconds=100)


def test_an_undecodable_role_gives_nothing_and_holds_up_nobody() -> None:
    """A role that never fitted is left out of the collection and counted in the status."""
    cluster = two_of(R9)
    cluster.put_role("s0", {"metadata": {"labels": {"a": "x"}}, "rules": 7})
    cluster.sync("agg")
    assert cluster.rules("agg") == [R1, R2]
    assert cluster.status()["undecodable"] == 1


def test_the_status_names_invalid_selectors() -> None:
    """Counts, and the present reason of each aggregated role that cannot be synced."""
    cluster = Cluster(agg=role(selectors=[AX]), bad=role(selectors=[AX, FOO]), s1=role(R1))
    status = dict(cluster.status())
    (problem,) = status.pop("badSelectors")
    assert status == {"roles": 3, "undecodable": 0, "aggregated": 2}
    assert problem.startswith("clusterrole 'bad', aggregationRule.clusterRoleSelectors[1]: ")
    cluster.put_role("bad", role(selectors=[AX]))
    assert cluster.status()["badSelectors"] == []


def test_the_status_stays_small() -> None:
    """No more than ten bad selectors are shown."""
    cluster = Cluster(**{f"bad{n}": role(selectors=[FOO]) for n in range(30)})
    assert len(cluster.status()["badSelectors"]) == 10


def test_deleted_roles_are_removed_from_the_state() -> None:
    """The set of aggregated roles follows the cache, also back to empty (Difference e)."""
    cluster = Cluster(agg1=role(selectors=[AX]), agg2=role(selectors=[AX]), s1=role())
    cluster.delete_role("agg1")
    cluster.put_role("agg2", role())
    status = cluster.status()
    assert (status["roles"], status["aggregated"]) == (2, 0)


def test_permissions_are_the_least_that_works() -> None:
    """Apply and escalate; no create, so that a deleted role is never recreated (CRA-57, CRA-59)."""
    permissions = ClusterRoleAggregation().kcm_writes()
    assert {(each.kind, each.verb, each.subresource) for each in permissions} == {
        (CLUSTER_ROLE, "patch", ""),
        (CLUSTER_ROLE, "escalate", ""),
    }


def test_the_watch_is_of_all_roles_and_compares_only_fields_read() -> None:
    """One cluster-wide watch without selectors; no repeats (CRA-5, CRA-T26, Differences a, b)."""
    (watch,) = ClusterRoleAggregation().kcm_watches()
    assert (watch.kind.api_version, watch.kind.resource, watch.kind.namespaced) == (
        "rbac.authorization.k8s.io/v1",
        "clusterroles",
        False,
    )
    assert (watch.namespace, watch.label_selector, watch.field_selector) == ("", "", "")
    assert watch.notify_unchanged is False
