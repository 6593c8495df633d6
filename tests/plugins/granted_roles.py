"""Permissions of test users, given and taken back."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from eventually import eventually
from kubernetes import client

from kcm_host_testing.api_server import ApiServer

Rules = Sequence[Mapping[str, Any]]
GROUP = "rbac.authorization.k8s.io"


def binding(name: str, *, user: str, role: str, kind: str = "ClusterRole") -> dict[str, Any]:
    """Return the manifest that lets a user do what a ClusterRole or Role says."""
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    }


def let_create(server: ApiServer, user: str, *, namespace: str, resources: Sequence[str]) -> None:
    """Permit a user to create objects in one namespace, and nothing else."""
    rbac: Any = client.RbacAuthorizationV1Api(server.client())
    rule = {"apiGroups": ["*"], "resources": resources, "verbs": ["create"]}
    rbac.create_namespaced_role(namespace, {"metadata": {"name": "tenant"}, "rules": [rule]})
    bound = binding("tenant", user=user, role="tenant", kind="Role")
    rbac.create_namespaced_role_binding(namespace, bound)


@contextmanager
def granted(server: ApiServer, user: str, rules: Rules) -> Iterator[Callable[[Rules], None]]:
    """
    Give a user the permissions of `rules` until the end; yield a function that replaces them.

    The server decides by what it has seen of them, a moment later.
    """
    rbac: Any = client.RbacAuthorizationV1Api(server.client())
    name = f"granted-{secrets.token_hex(4)}"
    rbac.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    rbac.create_cluster_role_binding(binding(name, user=user, role=name))
    try:
        _wait_until_known(server, user)
        yield lambda others: rbac.patch_cluster_role(name, {"rules": others})
    finally:
        rbac.delete_cluster_role_binding(name)
        rbac.delete_cluster_role(name)


def _wait_until_known(server: ApiServer, user: str) -> None:
    """Wait until the server applies the permissions; an earlier host would get 403."""
    reviews: Any = client.AuthorizationV1Api(server.client(user))
    asked = {"spec": {"namespace": "default"}}

    def known() -> bool:
        review = reviews.create_self_subject_rules_review(asked)
        return any("list" in (rule.verbs or ()) for rule in review.status.resource_rules)

    eventually(known, f"the permissions of {user} are known to the server")
