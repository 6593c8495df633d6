"""The controller with a real server: what is written, how often, with which permissions."""

from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.granted_roles import granted
from plugins.resourcequota.quota_server import CONTROLLER, QuotaNamespace, quota_host, widgets
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer


def test_an_event_reports_names_without_evaluator(place: QuotaNamespace) -> None:
    """One Warning Event, with the controller's own permissions (RQ-B60, RQ-322)."""
    place.quota("pods", "limits.example.com/gpu")
    found: Any = eventually(
        lambda: place.core.list_namespaced_event(place.name).items, "there is an Event"
    )
    (event,) = found
    assert (event.type, event.reason) == ("Warning", "NotServed")
    assert event.involved_object.name == "q"
    assert "limits.example.com/gpu" in event.message


def test_a_resource_that_comes_later_is_counted(
    place: QuotaNamespace, quota_server: ApiServer
) -> None:
    """As soon as the host has discovered it (RQ-T102, RQ-238, D-18, RQ-B14)."""
    group = f"{place.name}.example.com"
    place.quota(f"count/widgets.{group}", "pods")
    place.wait_until({"pods": 0})
    definitions: Any = client.ApiextensionsV1Api(quota_server.client())
    definitions.create_custom_resource_definition(widgets(group))
    custom: Any = client.CustomObjectsApi(quota_server.client())

    def create(name: str) -> bool:
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}}
        try:
            custom.create_namespaced_custom_object(group, "v1", place.name, "widgets", body)
        except client.ApiException as error:
            # Not served yet, or counted but not yet known: both pass.
            return bool(error.status == 409)
        return True

    eventually(lambda: create("w"), "the resource is there", timeout_seconds=60)
    eventually(
        lambda: place.used() == {"pods": 0, f"count/widgets.{group}": 1},
        "it is counted",
        timeout_seconds=60,
    )
    definitions.delete_custom_resource_definition(f"widgets.{group}")


def test_a_host_without_rights_to_a_resource_counts_the_others(
    quota_server: ApiServer,
) -> None:
    """
    403 on a list affects only the names of that resource (RQ-63, RQ-B54).

    The permission to get objects is not needed (RQ-51).
    """
    place = QuotaNamespace(quota_server)
    read = {"verbs": ["list", "watch"], "apiGroups": [""]}
    rules = [
        {**read, "resources": ["resourcequotas", "pods"]},
        {"verbs": ["update"], "apiGroups": [""], "resources": ["resourcequotas/status"]},
        {"verbs": ["create", "patch"], "apiGroups": [""], "resources": ["events"]},
    ]
    with granted(quota_server, "nobody", rules), quota_host(quota_server, user="nobody"):
        place.quota("pods", "services")
        eventually(lambda: "pods" in place.used(), "pods are counted", timeout_seconds=30)


@pytest.mark.parametrize("word", ["resourcequota-controller", "resourcequota"])
def test_names_of_the_controller(word: str, quota_server: ApiServer) -> None:
    """The reference's name and the short one, with its own role (RQ-1 to RQ-3, RQ-320)."""
    config: dict[str, Any] = {"controllers": {word: {}}}
    with RunningHost(config, kubeconfig=quota_server.kubeconfig("quota")) as host:
        assert host.controller(CONTROLLER)["workers"] == 5
        assert 'workqueue_depth{name="resourcequota_primary"}' in host.metrics()
