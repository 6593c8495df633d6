"""The changes that queue roles on a real server, how often, and those that do not."""

import time
from concurrent.futures import ThreadPoolExecutor

from eventually import eventually
from plugins.clusterrole_aggregation.server_roles import R1, Roles, rule

from kcm_host_testing.faults import Answer, Cut, Stall

REST_SECONDS = 0.1
WATCH = {"watch": "true"}
EXPIRED = Answer(
    200,
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"reason":"Expired","code":410,"message":"too old"}}\n',
    {"Content-Type": "application/json"},
)


def test_fields_that_are_not_read_queue_nothing(roles: Roles, own: str) -> None:
    """Annotations come and go without a sync (Difference b)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    before = roles.wait_until_idle()
    for number in range(20):
        roles.change(f"{own}-s1", metadata={"annotations": {"a": str(number)}})
        roles.change(own, metadata={"annotations": {"a": str(number)}})
    assert roles.wait_until_idle()["syncs"] == before["syncs"]


def test_a_burst_of_edits_costs_few_writes(roles: Roles, own: str) -> None:
    """A hundred edits of the sources: one write in each 100 ms at most (Difference c, T19)."""
    sources = [f"{own}-s{number}" for number in range(100)]
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(roles.create, name, rule(name), labels={own: "x"}) for name in sources]
        for job in jobs:
            job.result()
    roles.wait_until_idle()
    rests = (time.monotonic() - began) / REST_SECONDS
    assert roles.rules(own) == [rule(name) for name in sorted(sources)]
    assert len(roles.applies(own)) <= rests + 1


def test_a_list_read_again_queues_nothing(roles: Roles, own: str) -> None:
    """After 410 all roles are listed again; where nothing changed, nothing is synced (T26, a)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    before = roles.wait_until_idle()
    lists = roles.host.stream("clusterroles")["lists"]
    cut_off(roles)
    eventually(lambda: roles.host.stream("clusterroles")["lists"] > lists, "roles are listed again")
    assert roles.wait_until_idle()["syncs"] == before["syncs"]


def test_a_source_deleted_without_a_watch_is_handled(roles: Roles, own: str) -> None:
    """A delete that only the next list shows queues all aggregated roles (CRA-T18)."""
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert roles.rules(own) == [R1]
    held = roles.proxy.add(Stall(), query=WATCH, also_open=True, times=1)
    roles.delete(f"{own}-s1")
    cut_off(roles)
    held.remove()
    roles.wait_until_idle()
    assert roles.rules(own) == []


def test_changes_during_a_sync_lead_to_one_more(roles: Roles, own: str) -> None:
    """However many there are, the role is written once more with the last of them (CRA-T27)."""
    roles.create(f"{own}-s1", rule("first"), labels={own: "x"})
    stall = roles.proxy.add(Stall(), method="PATCH", path=f"/{own}$")
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    stall.wait_until_hit()
    for name in ("second", "third", "fourth"):
        roles.change(f"{own}-s1", rules=[rule(name)])
    roles.host.wait_until_seen("clusterroles", roles.touch())
    assert len(roles.applies(own)) == 1
    stall.remove()
    roles.wait_until_idle()
    assert roles.applied(own) == [[rule("first")], [rule("fourth")]]
    assert roles.rules(own) == [rule("fourth")]


def cut_off(roles: Roles) -> None:
    """End the host's watch and answer the next one that its version is too old."""
    roles.proxy.add(EXPIRED, query=WATCH, times=1)
    roles.proxy.add(Cut(), query=WATCH, also_open=True, times=1)
