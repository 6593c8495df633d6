"""Selectors that make no sense: a server lets none of them through today."""

from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes import client
from plugins.clusterrole_aggregation.server_roles import (
    manifest,
)

from kcm_host_testing.api_server import ApiServer

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
