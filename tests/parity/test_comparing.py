"""What the comparison sees, what it excuses, and how it tells it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from parity.catalogue import RECORDED, twice
from parity.compare import Deviation, deviations
from parity.differences import DIFFERENCES, undeclared, unseen
from parity.result import Result
from parity.scenario import Scenario
from parity.scenarios.nodes import TTL, node
from parity.scenarios.ranges import TERMINATING
from parity.verdict import verdict

SCENARIO = Scenario("a story", "ttl", "TTL-1", (node("n"),))
OWNER = {"manager": "kube-controller-manager", "operation": "Update", "fields": ["f:a"]}


def result() -> Result:
    """Return a result of some depth."""
    return Result(
        looks={
            "at the end": {
                "nodes/$n": {"metadata": {"annotations": {TTL: "15"}}, "managedFields": [OWNER]}
            }
        },
        events=["Node $n: Warning Failed: it did"],
        writes={"ttl": {"patch nodes 200": 2}},
        answers={"1. delete nodes/$n": 404},
        refused={"answer the next": 3},
    )


def _other_value(one: Result) -> None:
    one.looks["at the end"]["nodes/$n"]["metadata"]["annotations"][TTL] = "30"


def _other_fields(one: Result) -> None:
    one.looks["at the end"]["nodes/$n"]["managedFields"] = [{**OWNER, "fields": ["f:a", "f:b"]}]


def _foreign_manager(one: Result) -> None:
    one.looks["at the end"]["nodes/$n"]["managedFields"] = [{**OWNER, "manager": "kubectl"}]


CHANGES: dict[str, Callable[[Result], Any]] = {
    "an object less": lambda one: one.looks["at the end"].clear(),
    "an object more": lambda one: one.looks["at the end"].update({"nodes/$m": {}}),
    "another value": _other_value,
    "other owned fields": _other_fields,
    "another manager": _foreign_manager,
    "an Event more": lambda one: one.events.append("Node $n: Normal Done: it is"),
    "another Event": lambda one: one.events.__setitem__(0, "Node $n: Normal Failed: it did"),
    "a write more": lambda one: one.writes["ttl"].update({"patch nodes 200": 3}),
    "another write": lambda one: one.writes["ttl"].update({"update nodes 200": 1}),
    "no write": lambda one: one.writes.clear(),
    "another answer": lambda one: one.answers.clear(),
    "fewer retries": lambda one: one.refused.update({"answer the next": 2}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_differs_is_a_failure(change: Callable[[Result], Any]) -> None:
    """Nothing that is compared can differ without being told, with the story that led to it."""
    ours = result()
    change(ours)
    told = verdict(SCENARIO, result(), ours)
    assert "undeclared" in told
    assert "create nodes/$n" in told


def test_equal_results_are_no_failure() -> None:
    """Two results that are the same have no verdict."""
    assert verdict(SCENARIO, result(), result()) == ""


def test_the_hosts_own_name_is_declared() -> None:
    """Where the reference is manager the host may be, with the same fields; TTL-50, H-31."""
    ours = result()
    ours.looks["at the end"]["nodes/$n"]["managedFields"] = [{**OWNER, "manager": "kcm-host"}]
    assert verdict(SCENARIO, result(), ours) == ""


def test_fewer_writes_are_declared_and_none_are_not() -> None:
    """The host may write the same less often, but has to write it."""
    ours = result()
    ours.writes = {"ttl": {"patch nodes 200": 1}}
    assert verdict(SCENARIO, result(), ours) == ""
    ours.writes = {"ttl": {"patch nodes 200": 0}}
    assert verdict(SCENARIO, result(), ours) != ""


def test_a_declared_difference_must_show() -> None:
    """A scenario that names a Difference fails when there is none: mended, or never there."""
    named = replace(SCENARIO, differs=("ttl d",))
    assert "'ttl d' does not show" in verdict(named, result(), result())
    ours = result()
    _other_value(ours)
    assert verdict(named, result(), ours) == ""


def test_where_numbers_are_chance_only_kinds_of_writes_count() -> None:
    """A scenario whose writes are not counted still tells another kind of write."""
    chance = replace(SCENARIO, counted=False)
    ours = result()
    ours.writes["ttl"] = {"patch nodes 200": 7, "patch nodes 404": 1}
    assert deviations(result(), ours, chance) == []
    ours.writes["ttl"]["update nodes 200"] = 1
    assert [one.path for one in deviations(result(), ours, chance)] == [
        ("writes", "ttl", "update nodes 200")
    ]


def test_an_unplayed_scenario_is_a_failure() -> None:
    """A problem on one side is the verdict, whatever else is the same."""
    assert "no server" in verdict(SCENARIO, replace(result(), problem="no server"), result())


def test_undeclared_names_are_refused() -> None:
    """A scenario cannot name a Difference that nobody declared."""
    with pytest.raises(ValueError, match="no Difference"):
        undeclared([], ["of my own"])


def test_shapes_excuse_nothing_else() -> None:
    """No shape excuses a lost object, a problem or an Event."""
    for path in (("looks", "at the end", "nodes/$n"), ("problem",), ("events", "0")):
        found = [Deviation(path, "one", "other")]
        assert undeclared(found, [one.name for one in DIFFERENCES]) == found
        assert unseen(found, [one.name for one in DIFFERENCES if not one.everywhere])


def test_who_counted_may_be_chance_and_nothing_else() -> None:
    """A number in `used` may be the server's or the controller's; its value is compared."""
    of = ("looks", "end", "resourcequotas/$ns/$q", "managedFields")
    limit, used = "f:status f:hard f:pods", "f:status f:used f:pods"
    excused = ("counted by another",)

    def owned(**fields: list[str]) -> list[dict[str, Any]]:
        return [
            {"manager": name.replace("_", "-"), "fields": each} for name, each in fields.items()
        ]

    theirs = owned(kube_controller_manager=[limit], kube_apiserver=[used])
    assert not undeclared([Deviation(of, theirs, owned(kcm_host=[limit, used]))], excused)
    assert undeclared([Deviation(of, theirs, owned(kcm_host=[limit], scenario=[used]))], excused)
    assert undeclared(
        [Deviation(of, theirs, owned(kcm_host=[used], kube_apiserver=[limit]))], excused
    )
    fields = (*of, "1", "fields")
    assert not undeclared([Deviation(fields, [limit, used], [limit])], excused)
    assert undeclared([Deviation(fields, [limit, used], [used])], excused)
    value = ("looks", "end", "resourcequotas/$ns/$q", "status", "used", "pods")
    assert undeclared([Deviation(value, "1", "2")], excused)


def test_scenarios_have_names_of_their_own() -> None:
    """No two scenarios share a name, so no recording is taken for another."""
    assert twice() == []
    assert len(RECORDED) > 80


def test_a_kept_range_may_say_so_at_once() -> None:
    """What the reference notices at its next resync is excused, and no other condition of it."""
    path = ("looks", "at the end", "servicecidrs/$d", "status", "conditions", "0")
    told = dict(zip(("status", "reason", "message"), TERMINATING, strict=True))
    found = [Deviation((*path, field), "one", value) for field, value in told.items()]
    assert undeclared(found, ["servicecidrs c"]) == []
    assert undeclared(found, []) == found
    wrong = [Deviation((*path, field), value, "one") for field, value in told.items()]
    assert undeclared(wrong, ["servicecidrs c"]) == wrong
