"""Refused and failed writes on a real server."""

from itertools import pairwise

import pytest
from eventually import eventually
from plugins.clusterrole_aggregation.server_roles import (
    CONTROLLER,
    R1,
    R2,
    Roles,
)

from kcm_host_testing.faults import Answer

JSON = {"Content-Type": "application/json"}
UNSUPPORTED = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":415,'
    b'"reason":"UnsupportedMediaType","message":"no apply here"}'
)


def waits(roles: Roles, name: str) -> list[str]:
    """Return the waits that the host announced after failures of one key."""
    return [line["retry_in"] for line in roles.host.log("sync failed", key=name)]


def test_a_failed_apply_is_repeated_with_growing_waits(roles: Roles, own: str) -> None:
    """After 5, 10, 20 ms; success resets this, a later failure waits 5 ms (CRA-T20, CRA-70, 71)."""
    broken = Answer(500, b"{}", JSON)
    roles.proxy.add(broken, method="PATCH", path=f"/{own}$", times=3)
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    applies = roles.applies(own)
    assert [apply.status for apply in applies] == [500, 500, 500, 200]
    times = [apply.time for apply in applies]
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    assert all(gap >= least for gap, least in zip(gaps, (0.005, 0.010, 0.020), strict=True))
    assert waits(roles, own) == ["0.005s", "0.01s", "0.02s"]
    roles.proxy.add(broken, method="PATCH", path=f"/{own}$", times=1)
    roles.change(f"{own}-s1", rules=[R2])
    roles.wait_until_idle()
    assert waits(roles, own) == ["0.005s", "0.01s", "0.02s", "0.005s"]
    assert roles.rules(own) == [R2]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(415, UNSUPPORTED, id="415: CRA-T21 is not built, Difference d"),
        pytest.param(403, b"{}", id="CRA-T22"),
        pytest.param(404, b"{}", id="404"),
        pytest.param(409, b"{}", id="409"),
        pytest.param(422, b"{}", id="422"),
    ],
)
def test_no_refusal_leads_to_another_request(
    roles: Roles, own: str, status: int, body: bytes
) -> None:
    """One apply an attempt, never an update, and a retry after each (CRA-63, CRA-70)."""
    roles.proxy.add(Answer(status, body, JSON), path=f"/{own}$", times=2)
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    roles.create(own, selectors=[{"matchLabels": {own: "x"}}])
    roles.wait_until_idle()
    assert [(one.method, one.status) for one in roles.applies(own)] == [
        ("PATCH", status),
        ("PATCH", status),
        ("PATCH", 200),
    ]
    assert waits(roles, own) == ["0.005s", "0.01s"]


def test_a_role_that_fails_holds_up_no_other(roles: Roles, own: str) -> None:
    """The failure belongs to its key (CRA-72)."""
    rule = roles.proxy.add(Answer(500, b"{}", JSON), method="PATCH", path=f"/{own}$")
    roles.create(f"{own}-s1", R1, labels={own: "x"})
    for name in (own, f"{own}-other"):
        roles.create(name, selectors=[{"matchLabels": {own: "x"}}])
    rule.wait_until_hit(3)
    eventually(lambda: roles.rules(f"{own}-other") == [R1], "the other role is written")
    assert own in roles.host.controller(CONTROLLER)["queue"]["failing"]
    rule.remove()
    eventually(lambda: roles.rules(own) == [R1], "the role is written in the end")
