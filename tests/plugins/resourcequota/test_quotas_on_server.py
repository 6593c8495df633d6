"""The controller with a real server: what is written, how often, with which permissions."""

from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.granted_roles import granted
from plugins.resourcequota.quota_server import CONTROLLER, QuotaNamespace, quota_host, widgets
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer


def test_a_new_quota_gets_its_status_by_one_write(place: QuotaNamespace) -> None:
    """No second one follows (RQ-T1, RQ-T2, RQ-45, RQ-257)."""
    place.quota("pods", "cpu", limit="5")
    place.wait_until({"pods": 0, "cpu": 0})
    assert place.status()["hard"] == {"pods": "5", "cpu": "5"}
    place.wait_until_quiet()
    assert place.writes() == [200]


def test_a_quota_without_anything_to_count_is_left_alone(place: QuotaNamespace) -> None:
    """The reference writes it at every sync (RQ-T15, RQ-T16, RQ-50, D-2)."""
    place.quota(name="empty")
    place.quota("example.com/foobars", name="unserved")
    eventually(lambda: place.status("unserved").get("hard"), "its limits are copied")
    place.wait_until_quiet()
    assert place.writes("empty") == []
    assert place.writes("unserved") == [200]


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


def test_a_resource_that_cannot_be_listed_affects_only_its_names(
    own_api_server: Any,
) -> None:
    """
    With a failing conversion webhook all other names are right at once.

    RQ-T117, RQ-T118, RQ-14, RQ-239, D-1; the reference would not count anything (Q-1).
    """
    server: ApiServer = own_api_server()
    definitions: Any = client.ApiextensionsV1Api(server.client())
    group = "broken.example.com"
    definitions.create_custom_resource_definition(widgets(group))
    custom: Any = client.CustomObjectsApi(server.client())
    place = QuotaNamespace(server)

    def create() -> bool:
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}}
        try:
            custom.create_namespaced_custom_object(group, "v1", place.name, "widgets", body)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    eventually(create, "the resource is there")
    nowhere = {"url": "https://127.0.0.1:1/convert"}
    webhook = {"clientConfig": nowhere, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    versions = widgets(group)["spec"]["versions"]
    newer = {**versions[0], "name": "v2", "storage": False}
    definitions.patch_custom_resource_definition(
        f"widgets.{group}", {"spec": {"versions": [newer, *versions], "conversion": conversion}}
    )

    def fails() -> bool:
        try:
            custom.list_namespaced_custom_object(group, "v2", place.name, "widgets")
        except client.ApiException as error:
            return bool(error.status in (429, 500))
        return False

    eventually(fails, "the new version cannot be listed")
    place.pod("p")
    place.quota("pods", name="fine")
    place.quota("pods", f"count/widgets.{group}", name="broken")
    with quota_host(server, user="admin") as host:
        place.wait_until({"pods": 1}, "fine")
        place.wait_until({"pods": 1}, "broken")
        status = host.controller(CONTROLLER)["status"]
        assert list(status["notReady"]) == [f"widgets.{group}"]
        place.pod("q")
        place.wait_until({"pods": 2}, "broken")
        reasons = {each.reason for each in place.core.list_namespaced_event(place.name).items}
        assert reasons == {"NotCounted"}


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
