"""Custom kinds that a test adds to a running API server, and removes again."""

from functools import partial
from typing import Any

from eventually import eventually
from kubernetes import client as kubernetes

from kcm_host_testing.api_server import ApiServer


class Definitions:
    """CustomResourceDefinitions of one API group, and objects of their version v1."""

    def __init__(self, server: ApiServer, group: str) -> None:
        self.group = group
        self._extensions: Any = kubernetes.ApiextensionsV1Api(server.client())
        self._objects: Any = kubernetes.CustomObjectsApi(server.client())
        self._made: dict[str, str] = {}

    def create(self, kind: str, *, plural: str = "", versions: tuple[str, ...] = ("v1",)) -> None:
        """Add a kind; the server serves it a moment later."""
        plural = plural or plural_of(kind)
        schema = {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        }
        definition = {
            "metadata": {"name": f"{plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [
                    {"name": one, "served": True, "storage": one == versions[0], "schema": schema}
                    for one in versions
                ],
            },
        }
        self._extensions.create_custom_resource_definition(definition)
        self._made[kind] = plural

    def delete(self, kind: str) -> None:
        """Delete a kind with its objects."""
        name = f"{self._made.pop(kind)}.{self.group}"
        self._extensions.delete_custom_resource_definition(name)

    def delete_all(self) -> None:
        """Delete all kinds."""
        for kind in list(self._made):
            self.delete(kind)

    def create_objects(self, kind: str, namespace: str, *names: str) -> None:
        """Create objects of a kind, as soon as it is served."""
        for name in names:
            eventually(partial(self._create, kind, namespace, name), f"{kind} is served")

    def _create(self, kind: str, namespace: str, name: str) -> bool:
        body = {"apiVersion": f"{self.group}/v1", "kind": kind, "metadata": {"name": name}}
        try:
            self._objects.create_namespaced_custom_object(
                self.group, "v1", namespace, plural_of(kind), body
            )
        except kubernetes.ApiException as error:
            if error.status != 404:
                raise
            return False
        return True


def plural_of(kind: str) -> str:
    """Return the resource name of a kind."""
    return f"{kind.lower()}s"
