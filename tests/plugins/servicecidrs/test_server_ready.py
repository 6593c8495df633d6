"""What a living ServiceCIDR gets on a real server, and what the server makes of it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from eventually import eventually
from plugins.servicecidrs.server_cidrs import (
    FIN_PLUS,
    FINALIZER,
    PATH,
    READY,
    STATUS_T,
    TERMINATING,
    CidrCluster,
    Net,
)

MANAGER = "service-cidr-controller"
OTHER = "example.com/other"


def made(cluster: CidrCluster, own: Net) -> str:
    """Make a ServiceCIDR, wait until it is complete, and return its name."""
    cluster.create(own.name, f"{own.v4}.0/24")
    cluster.wait_until_complete(own.name)
    cluster.wait_until_idle()
    return own.name


def test_a_new_one_gets_finalizer_and_condition(cluster: CidrCluster, own: Net) -> None:
    """First the one, then the other, by two patches of one sync (SC-T2, SC-6, SC-70, SC-75)."""
    name = made(cluster, own)
    finalizer, status = cluster.requests(name)
    assert (finalizer.path, finalizer.query) == (f"{PATH}/{name}", {})
    assert finalizer.headers["content-type"] == "application/strategic-merge-patch+json"
    assert json.loads(finalizer.body) == {"metadata": {"finalizers": [FINALIZER]}}
    assert status.path == f"{PATH}/{name}/status"
    assert status.query == {"fieldManager": MANAGER, "force": "true"}
    assert status.headers["content-type"] == "application/apply-patch+yaml"
    assert (finalizer.status, status.status) == (200, 200)
    assert cluster.finalizers(name) == [FINALIZER]


def test_the_condition_is_the_references(cluster: CidrCluster, own: Net) -> None:
    """An empty reason that is there, the present time, nothing else (SC-71, SC-73, SC-81 to 85)."""
    name = made(cluster, own)
    body = json.loads(cluster.requests(name)[-1].body)
    (condition,) = body["status"].pop("conditions")
    text = condition.pop("lastTransitionTime")
    age = datetime.now(UTC) - datetime.fromisoformat(text)
    assert timedelta(0) <= age < timedelta(minutes=1)
    assert len(text) == len("2026-01-02T03:04:05Z")
    assert condition == dict(zip(("status", "reason", "message"), READY, strict=True)) | {
        "type": "Ready"
    }
    assert body == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": name},
        "status": {},
    }
    assert "observedGeneration" not in cluster.condition(name)


def test_who_owns_what_was_written(cluster: CidrCluster, own: Net) -> None:
    """The condition belongs to the controller, the finalizer to the host (SC-3, Difference g)."""
    found = cluster.read(made(cluster, own))
    assert found is not None
    managed = {
        (one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"]
        for one in found["metadata"]["managedFields"]
    }
    entry = {f"f:{field}": {} for field in ("type", "status", "reason", "message")}
    entry |= {".": {}, "f:lastTransitionTime": {}}
    conditions = {"f:conditions": {'k:{"type":"Ready"}': entry}}
    assert managed[MANAGER, "Apply", "status"] == {"f:status": conditions}
    finalizers = {".": {}, f'v:"{FINALIZER}"': {}}
    assert managed["kcm-host", "Update", ""] == {"f:metadata": {"f:finalizers": finalizers}}


def test_one_with_finalizer_gets_the_condition_alone(cluster: CidrCluster, own: Net) -> None:
    """What is there is not sent again (SC-T4, SC-71)."""
    cluster.create(own.name, f"{own.v4}.0/24", finalizers=[FINALIZER])
    cluster.wait_until_complete(own.name)
    cluster.wait_until_idle()
    assert cluster.written(own.name) == [STATUS_T]


def test_finalizers_of_others_stay(cluster: CidrCluster, own: Net) -> None:
    """The patch adds to the list; the condition is correct already (SC-T5, SC-71, SC-131)."""
    name = made(cluster, own)
    cluster.set_finalizers(name, OTHER)
    cluster.wait_until_complete(name)
    cluster.wait_until_idle()
    assert cluster.written(name) == [FIN_PLUS, STATUS_T, FIN_PLUS]
    assert sorted(cluster.finalizers(name)) == [OTHER, FINALIZER]
    cluster.set_finalizers(name, FINALIZER)


def test_the_default_range_gets_this_controllers_message(cluster: CidrCluster) -> None:
    """The server's own message is replaced once, and the server lets it be (SC-T6, SC-87)."""
    cluster.wait_until_complete("kubernetes")
    before = len(cluster.requests("kubernetes"))
    cluster.set_condition("kubernetes", "True", "", "Kubernetes default Service CIDR is ready")
    cluster.wait_until_delivered()
    cluster.wait_until_complete("kubernetes")
    cluster.wait_until_idle()
    assert cluster.written("kubernetes")[before:] == [STATUS_T]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(TERMINATING, id="SC-T30"),
        pytest.param(("True", "", "other"), id="message"),
        pytest.param(("True", "Other", READY[2]), id="reason"),
        pytest.param(("Unknown", "", READY[2]), id="status"),
    ],
)
def test_a_condition_changed_by_hand_is_put_right(
    cluster: CidrCluster, own: Net, condition: tuple[str, str, str]
) -> None:
    """Status, reason and message are compared; the time is always now (SC-80, SC-84)."""
    name = made(cluster, own)
    cluster.set_condition(name, *condition)
    eventually(lambda: cluster.ready_condition(name) == READY, "the condition is put right")
    cluster.wait_until_idle()
    assert cluster.written(name) == [FIN_PLUS, STATUS_T, STATUS_T]
    assert cluster.condition(name)["lastTransitionTime"] > "2026"


def test_the_time_of_a_condition_is_not_compared(cluster: CidrCluster, own: Net) -> None:
    """One that differs in its time alone is left as it is (SC-T3, SC-80)."""
    name = made(cluster, own)
    cluster.set_condition(name, *READY)
    cluster.wait_until_idle()
    assert cluster.written(name) == [FIN_PLUS, STATUS_T]
    assert cluster.condition(name)["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_own_writes_lead_to_nothing_more(cluster: CidrCluster, own: Net) -> None:
    """One sync and two requests for a new object (SC-T28, SC-75, Difference f)."""
    before = cluster.wait_until_idle()
    name = made(cluster, own)
    after = cluster.wait_until_idle()
    assert after["syncs"] - before["syncs"] <= 2
    assert cluster.written(name) == [FIN_PLUS, STATUS_T]
