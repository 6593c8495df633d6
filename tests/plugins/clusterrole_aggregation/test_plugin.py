"""The hooks, called as the host calls them, with stores and requests in memory."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

import msgspec
import pytest

from kcm_host.api import (
    ApiError,
    Change,
    Done,
    HostError,
    Key,
    Kind,
    Objects,
    Unreachable,
    Watch,
    WriteResponse,
)
from kcm_host_clusterrole_aggregation.models import Role, Rule
from kcm_host_clusterrole_aggregation.plugin import CLUSTER_ROLE, ClusterRoleAggregation
from kcm_host_clusterrole_aggregation.selectors import InvalidSelector

M = TypeVar("M", bound=msgspec.Struct)
Manifest = Mapping[str, Any]

R1 = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
R2 = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
R9 = {"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"]}
AX: Manifest = {"matchLabels": {"a": "x"}}
FOO: Manifest = {"matchExpressions": [{"key": "a", "operator": "Foo"}]}
EMPTY_IN: Manifest = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}


def role(
    *rules: Manifest,
    labels: Mapping[str, str] | None = None,
    selectors: Iterable[Manifest] | None = None,
) -> Role:
    """Return a role as the host decodes it; with selectors, even none, it is aggregated."""
    manifest: dict[str, Any] = {"metadata": {"labels": labels}, "rules": list(rules) or None}
    if selectors is not None:
        manifest["aggregationRule"] = {"clusterRoleSelectors": list(selectors)}
    return msgspec.json.decode(json.dumps(manifest), type=Role)


class Store:
    """All roles of a cluster, as the watch of the controller has them."""

    def __init__(self) -> None:
        self.roles: dict[Key, Role] = {}
        self.broken: frozenset[Key] = frozenset()

    def get(self, name: str, namespace: str = "") -> Role | None:
        return self.roles.get(Key(name, namespace))

    def items(self) -> Iterator[tuple[Key, Role]]:
        return iter(self.roles.items())

    def by_index(self, index: str, value: str) -> Iterator[tuple[Key, Role]]:
        raise LookupError(f"no index {index!r} for {value!r}")

    def undecodable(self, namespace: str | None = None) -> frozenset[Key]:
        return self.broken

    def __len__(self) -> int:
        return len(self.roles.keys() | self.broken)

    def of(self, kind: Kind, model: type[M]) -> Objects[M]:
        if (kind, model) != (CLUSTER_ROLE, Role):
            raise LookupError(f"{kind} as {model} was never declared")
        return cast("Objects[M]", self)


class Cluster:
    """One controller with its cache, its queue of keys and its requests."""

    def __init__(self, **roles: Role) -> None:
        self.controller = ClusterRoleAggregation()
        self.view = Store()
        self.queue: deque[Key] = deque()
        #: Path and body of each apply, and the answers still to give instead of success.
        self.applied: list[tuple[str, Any]] = []
        self.answers: deque[HostError] = deque()
        for name, each in roles.items():
            self.put(name, each, initial=True)

    @property
    def watch(self) -> Watch[Role]:
        (watch,) = self.controller.kcm_watches()
        return watch

    def put(self, name: str, new: Role | None, *, initial: bool = False) -> list[str]:
        """Change one role (None: delete it) and return the names of the keys that are queued."""
        key, old = Key(name), self.view.roles.pop(Key(name), None)
        if new is not None:
            self.view.roles[key] = new
        change = Change(kind=CLUSTER_ROLE, key=key, old=old, new=new, initial=initial)
        keys = list(self.watch.keys(change, self.view))
        self.queue.extend(each for each in keys if each not in self.queue)
        return sorted(each.name for each in keys)

    async def sync(self, name: str) -> Done:
        """Sync one role with the present cache."""
        return await self.controller.kcm_sync(Key(name), self.view, self)

    async def sync_until_idle(self) -> list[str]:
        """Sync queued keys until there are none, and return their names in order."""
        synced: list[str] = []
        while self.queue:
            assert len(synced) < 100, "the writes of the controller never come to an end"
            synced.append(self.queue.popleft().name)
            await self.sync(synced[-1])
        return synced

    async def patch(
        self, kind: Kind, key: Key, body: Mapping[str, Any], *, subresource: str = ""
    ) -> WriteResponse:
        raise NotImplementedError(f"a patch of {kind} {key} {subresource} with {body}")

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
    ) -> WriteResponse:
        """Replace the rules of all managers, and deliver the change (CRA-16, CRA-55)."""
        assert (kind, field_manager, force) == (
            CLUSTER_ROLE,
            "clusterrole-aggregation-controller",
            True,
        )
        sent = json.loads(json.dumps(body))
        self.applied.append((key.name, sent))
        if self.answers:
            raise self.answers.popleft()
        stored = self.view.roles[key]
        rules = msgspec.convert(sent.get("rules", []), tuple[Rule, ...])
        self.put(key.name, msgspec.structs.replace(stored, rules=rules))
        return WriteResponse(resource_version="2")

    def rules(self, name: str) -> Any:
        """Return the present rules of a role, as a manifest has them."""
        return json.loads(msgspec.json.encode(self.view.roles[Key(name)].rules or ()))


def two_of(*rules: Manifest) -> Cluster:
    """Return `agg` with these rules, selecting `s1` with R1 and R2."""
    return Cluster(agg=role(*rules, selectors=[AX]), s1=role(R1, R2, labels={"a": "x"}))


@pytest.mark.parametrize(
    ("present", "requests"),
    [
        pytest.param([], [{"rules": [R1, R2]}], id="CRA-T1: none yet"),
        pytest.param([R1, R2], [], id="CRA-T2: right already"),
        pytest.param([R2, R1], [{"rules": [R1, R2]}], id="CRA-T3: another order"),
        pytest.param([R9], [{"rules": [R1, R2]}], id="CRA-T4: edited by hand"),
        pytest.param([R1, R2, R9], [{"rules": [R1, R2]}], id="one too many"),
        pytest.param([R1], [{"rules": [R1, R2]}], id="one missing"),
    ],
)
async def test_rules_are_written_when_they_differ(present: list[Manifest], requests: Any) -> None:
    """One forced apply with the collected rules, none when they are there (CRA-27, 28, 54)."""
    cluster = two_of(*present)
    assert await cluster.sync("agg") == Done()
    assert [body for _, body in cluster.applied] == requests


@pytest.mark.parametrize(
    ("present", "requests"),
    [
        pytest.param([], [], id="CRA-T11: nothing to clear"),
        pytest.param([R1], [("agg", {})], id="CRA-T12: cleared by leaving out the key"),
    ],
)
async def test_an_empty_list_of_selectors_empties_the_role(
    present: list[Manifest], requests: Any
) -> None:
    """No selector matches nothing; null rules count as empty (CRA-31, CRA-41, CRA-53)."""
    cluster = Cluster(agg=role(*present, selectors=[]), s1=role(R1))
    await cluster.sync("agg")
    assert cluster.applied == requests


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param([AX, FOO], id="CRA-T13: operator"),
        pytest.param([EMPTY_IN], id="CRA-T14: no values"),
    ],
)
async def test_an_invalid_selector_fails_the_sync(selectors: list[Manifest]) -> None:
    """Nothing is written, also not what earlier selectors matched (CRA-23)."""
    cluster = Cluster(agg=role(selectors=selectors), s1=role(R1, labels={"a": "x"}))
    with pytest.raises(
        InvalidSelector, match=f"'agg'.*clusterRoleSelectors.{len(selectors) - 1}.:"
    ):
        await cluster.sync("agg")
    assert cluster.applied == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ApiError("no apply", status=415, reason="UnsupportedMediaType"), id="415"),
        pytest.param(ApiError("not allowed", status=403, reason="Forbidden"), id="CRA-T22: 403"),
        pytest.param(ApiError("broken", status=500), id="CRA-T20: 500"),
        pytest.param(Unreachable("no answer"), id="no answer"),
    ],
)
async def test_an_error_answer_is_left_to_the_host(answer: HostError) -> None:
    """One request, no other way tried, and the same again at the retry (CRA-63, Difference d)."""
    cluster = two_of()
    cluster.answers.append(answer)
    with pytest.raises(type(answer)) as raised:
        await cluster.sync("agg")
    assert raised.value is answer
    assert await cluster.sync("agg") == Done()
    assert cluster.applied == [("agg", {"rules": [R1, R2]})] * 2


async def test_a_role_that_is_gone_needs_nothing() -> None:
    """A queued key whose role was deleted ends well and without a request (CRA-21, CRA-T23)."""
    cluster = two_of()
    cluster.put("agg", None)
    assert await cluster.sync_until_idle() == ["agg"]
    assert cluster.applied == []


async def test_a_role_that_is_no_longer_aggregated_keeps_its_rules() -> None:
    """Without aggregation rule there is nothing to do (CRA-12, CRA-22)."""
    cluster = two_of(R9)
    assert cluster.put("agg", role(R9)) == []
    assert await cluster.sync_until_idle() == ["agg"]
    assert cluster.rules("agg") == [R9]


def test_any_change_queues_all_aggregated_roles() -> None:
    """Whatever changed in whichever role: all aggregated roles, nothing else (CRA-10 to CRA-14)."""
    cluster = Cluster(agg1=role(selectors=[AX]), agg2=role(selectors=[]), s1=role(R1))
    assert cluster.put("s2", role(R2)) == ["agg1", "agg2"], "CRA-T17: an added role"
    assert cluster.put("s2", role(R1)) == ["agg1", "agg2"], "a changed role"
    assert cluster.put("s2", None) == ["agg1", "agg2"], "CRA-T18: a deleted role"
    assert cluster.put("agg3", role(selectors=[AX])) == ["agg1", "agg2", "agg3"], "a new one"
    assert cluster.put("agg3", role()) == ["agg1", "agg2"], "one that lost its rule"
    assert cluster.put("agg2", None) == ["agg1"], "one that is gone"
    assert cluster.put("agg1", None) == []


def test_a_deletion_without_last_state_queues_all_too() -> None:
    """A role that was never cached may be reported as deleted (CRA-10, CRA-T18)."""
    assert two_of().put("unknown", None) == ["agg"]


def test_the_initial_list_queues_each_aggregated_role_once() -> None:
    """Starting with many roles is linear: an initial object queues itself or nothing (CRA-15)."""
    cluster = Cluster()
    queued = [
        cluster.put(f"r{n}", role(selectors=[AX]) if n % 3 == 0 else role(R1), initial=True)
        for n in range(9)
    ]
    assert queued == [["r0"], [], [], ["r3"], [], [], ["r6"], [], []]
    assert cluster.put("r1", role(R2)) == ["r0", "r3", "r6"]


def test_a_burst_is_one_round_of_syncs() -> None:
    """Fifty events leave a key for each aggregated role, rested 100 ms (CRA-T19, Difference c)."""
    cluster = Cluster(**{f"agg{n}": role(selectors=[AX]) for n in range(3)})
    for n in range(50):
        cluster.put(f"s{n}", role(R1))
    assert sorted(key.name for key in cluster.queue) == ["agg0", "agg1", "agg2"]
    assert cluster.watch.debounce == timedelta(milliseconds=100)


async def test_a_source_that_loses_its_label_takes_its_rules_away() -> None:
    """The aggregated role is written without them (CRA-T25)."""
    cluster = Cluster(
        agg=role(R1, R2, selectors=[AX]),
        s1=role(R1, labels={"a": "x"}),
        s2=role(R2, labels={"a": "x"}),
    )
    assert await cluster.sync_until_idle() == ["agg"]
    assert cluster.applied == []
    assert cluster.put("s1", role(R1, labels={"a": "y"})) == ["agg"]
    await cluster.sync_until_idle()
    assert cluster.rules("agg") == [R2]


def to(name: str) -> dict[str, str]:
    """Return the label by which the built-in role `name` selects (CRA-92)."""
    return {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}


async def test_a_chain_settles_by_its_own_writes() -> None:
    """A new rule climbs from view to edit to admin, then all is quiet (CRA-16, CRA-92, CRA-T24)."""
    cluster = Cluster(
        admin=role(selectors=[{"matchLabels": to("admin")}]),
        edit=role(labels=to("admin"), selectors=[{"matchLabels": to("edit")}]),
        view=role(labels=to("edit"), selectors=[{"matchLabels": to("view")}]),
        v1=role(R1, labels=to("view")),
        e1=role(R2, labels=to("edit")),
    )
    await cluster.sync_until_idle()
    assert cluster.rules("admin") == cluster.rules("edit") == [R2, R1]
    cluster.applied.clear()
    cluster.put("crd-view", role(R9, labels=to("view")))
    await cluster.sync_until_idle()
    assert cluster.rules("view") == [R9, R1]
    assert cluster.rules("admin") == cluster.rules("edit") == [R2, R9, R1]
    assert len(cluster.applied) == 3
    cluster.put("other", role())
    await cluster.sync_until_idle()
    assert len(cluster.applied) == 3


async def test_two_roles_that_select_each_other_keep_a_rule() -> None:
    """What got into a circle stays there after its source has gone (CRA-94)."""
    cluster = Cluster(
        one=role(labels={"a": "x"}, selectors=[{"matchLabels": {"b": "y"}}]),
        two=role(labels={"b": "y"}, selectors=[AX]),
        s1=role(R1, labels={"a": "x"}),
    )
    await cluster.sync_until_idle()
    cluster.put("s1", None)
    await cluster.sync_until_idle()
    assert cluster.rules("one") == cluster.rules("two") == [R1]


async def test_an_undecodable_role_gives_nothing_and_holds_up_nobody() -> None:
    """A role that never fitted is left out of the collection and counted in the status."""
    cluster = two_of(R9)
    cluster.view.broken = frozenset({Key("s0")})
    await cluster.sync("agg")
    assert cluster.rules("agg") == [R1, R2]
    assert cluster.controller.kcm_status(cluster.view)["undecodable"] == 1


def test_the_status_names_invalid_selectors() -> None:
    """Counts, and the present reason of each aggregated role that cannot be synced."""
    cluster = Cluster(agg=role(selectors=[AX]), bad=role(selectors=[AX, FOO]), s1=role(R1))
    status = dict(cluster.controller.kcm_status(cluster.view))
    (problem,) = status.pop("badSelectors")
    assert status == {"roles": 3, "undecodable": 0, "aggregated": 2}
    assert problem.startswith("clusterrole 'bad', aggregationRule.clusterRoleSelectors[1]: ")
    cluster.put("bad", role(selectors=[AX]))
    assert cluster.controller.kcm_status(cluster.view)["badSelectors"] == []


def test_the_status_stays_small() -> None:
    """No more than ten bad selectors are shown."""
    cluster = Cluster(**{f"bad{n}": role(selectors=[FOO]) for n in range(30)})
    assert len(cluster.controller.kcm_status(cluster.view)["badSelectors"]) == 10


def test_deleted_roles_are_removed_from_the_state() -> None:
    """The set of aggregated roles follows the cache, also back to empty (Difference e)."""
    cluster = Cluster(agg1=role(selectors=[AX]), agg2=role(selectors=[AX]), s1=role())
    cluster.put("agg1", None)
    cluster.put("agg2", role())
    status = cluster.controller.kcm_status(cluster.view)
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
