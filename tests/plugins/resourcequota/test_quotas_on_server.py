"""The controller with a real server: resources that come later, and the permissions it needs."""

from typing import Any

from eventually import eventually
from kubernetes import client
from plugins.granted_roles import granted
from plugins.resourcequota.quota_server import QuotaNamespace, quota_host, widgets

from kcm_host_testing.api_server import ApiServer


def test_a_resource_that_comes_later_is_counted(
    place: QuotaNamespace, quota_server: ApiServer
) -> None:
    """By the role of the controller, once discovered (RQ-T102, RQ-238, RQ-320, D-18, RQ-B14)."""
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
    403 on a list affects only the names of that resource, which an Event says (RQ-63, RQ-B54).

    The permission to get objects is not needed (RQ-51), that to write Events is (RQ-322, RQ-B60).
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
        events = place.core.list_namespaced_event
        (event,) = eventually(lambda: events(place.name).items, "there is an Event")
        assert (event.type, event.reason) == ("Warning", "NotCounted")
        assert event.involved_object.name == "q"
