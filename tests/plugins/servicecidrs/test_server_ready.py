"""The requests of the controller on a real server, and what the server makes of them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from plugins.servicecidrs.server_cidrs import (
    FINALIZER,
    PATH,
    READY,
    CidrCluster,
    Net,
)

MANAGER = "service-cidr-controller"


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
    entry: Any = {f"f:{field}": {} for field in ("type", "status", "reason", "message")}
    entry |= {".": {}, "f:lastTransitionTime": {}}
    conditions = {"f:conditions": {'k:{"type":"Ready"}': entry}}
    assert managed[MANAGER, "Apply", "status"] == {"f:status": conditions}
    finalizers: Any = {".": {}, f'v:"{FINALIZER}"': {}}
    assert managed["kcm-host", "Update", ""] == {"f:metadata": {"f:finalizers": finalizers}}
