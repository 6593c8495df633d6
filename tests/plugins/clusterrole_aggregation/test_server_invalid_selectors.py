"""Selectors that make no sense: what a server lets through, and what the controller does then."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from eventually import eventually
from kubernetes import client
from plugins.clusterrole_aggregation.server_roles import (
    CONTROLLER,
    R1,
    R2,
    Roles,
    aggregation_host,
    manifest,
)

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Rewrite

Manifest = Mapping[str, Any]


def needs(operator: str, *values: str, key: str = "a") -> Manifest:
    """Return a selector with one requirement."""
    given = {"values": list(values)} if values else {}
    return {"matchExpressions": [{"key": key, "operator": operator, **given}]}


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param([], id="CRA-T11: no selector"),
        pytest.param([needs("Foo")], id="CRA-T13: operator"),
        pytest.param([needs("In")], id="CRA-T14: no values"),
        pytest.param([needs("Exists", "x")], id="CRA-46: values"),
        pytest.param([needs("Exists", key="a b")], id="CRA-47: key"),
        pytest.param([needs("In", "a b")], id="CRA-47: value"),
        pytest.param([{"matchLabels": {"a": "a b"}}], id="CRA-90: value of a label"),
    ],
)
def test_the_server_refuses_a_new_role_with_it(
    plugin_server: ApiServer, own: str, selectors: list[Manifest]
) -> None:
    """So only a role that is older than this check can have one (CRA-90)."""
    rbac: Any = client.RbacAuthorizationV1Api(plugin_server.client())
    with pytest.raises(client.ApiException, match=r"aggregationRule.clusterRoleSelectors") as met:
        rbac.create_cluster_role(manifest(own, selectors=selectors))
    assert met.value.status == 422


def spoiled(line: bytes) -> bytes:
    """Return a line of a watch as if the server had let everything through."""
    return line.replace(b'"operator":"DoesNotExist"', b'"operator":"Foo"')


@pytest.fixture(scope="module")
def spoiling(plugin_server: ApiServer) -> Iterator[Roles]:
    """A host that reads an invalid operator in place of every `DoesNotExist`."""
    with aggregation_host(plugin_server) as roles:
        roles.proxy.add(Rewrite(spoiled), query={"watch": "true"}, also_open=True)
        yield roles


def test_an_invalid_selector_stops_only_its_own_role(spoiling: Roles, own: str) -> None:
    """Nothing is written though the first selector matches; retried (CRA-T13, CRA-23, 72)."""
    good = {"matchLabels": {own: "x"}}
    spoiling.create(f"{own}-s1", R1, labels={own: "x"})
    spoiling.create(own, selectors=[good, needs("DoesNotExist")])
    spoiling.create(f"{own}-other", selectors=[good])
    eventually(lambda: spoiling.rules(f"{own}-other") == [R1], "the other role is written")
    failures = eventually(lambda: spoiling.host.log("sync failed", key=own)[2:], "it is retried")
    assert "operator 'Foo' for label 'a' is not supported" in failures[0]["error"]
    assert [line["retry_in"] for line in spoiling.host.log("sync failed", key=own)][:2] == [
        "0.005s",
        "0.01s",
    ]
    (problem,) = spoiling.host.controller(CONTROLLER)["status"]["badSelectors"]
    assert problem.startswith(f"clusterrole '{own}', aggregationRule.clusterRoleSelectors[1]: ")
    assert spoiling.applies(own) == []
    assert spoiling.host.page("/readyz")[0] == 200


def test_a_corrected_selector_takes_effect_at_once(spoiling: Roles, own: str) -> None:
    """The change itself leads to a sync, however long the retry would wait (CRA-72)."""
    spoiling.create(f"{own}-s1", R2, labels={own: "x"})
    spoiling.create(own, selectors=[needs("DoesNotExist")])
    eventually(lambda: len(spoiling.host.log("sync failed", key=own)) >= 6, "it is retried")
    spoiling.change(own, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {own: "x"}}]})
    eventually(lambda: spoiling.rules(own) == [R2], "the role is written")
    assert spoiling.wait_until_idle()["status"]["badSelectors"] == []
