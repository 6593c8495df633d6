"""The resources that scenarios may name, and where the API server keeps them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """What has to be known of a resource to write a manifest and a path of it."""

    api_version: str
    kind: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        """Where its API version is served."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else "/api/v1"


RBAC, NETWORKING, DRA = "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1", "resource.k8s.io/v1"

#: Resource -> what is known of it. A scenario that needs another one adds a line.
RESOURCES = {
    "namespaces": Resource("v1", "Namespace", namespaced=False),
    "nodes": Resource("v1", "Node", namespaced=False),
    "pods": Resource("v1", "Pod"),
    "services": Resource("v1", "Service"),
    "configmaps": Resource("v1", "ConfigMap"),
    "secrets": Resource("v1", "Secret"),
    "serviceaccounts": Resource("v1", "ServiceAccount"),
    "replicationcontrollers": Resource("v1", "ReplicationController"),
    "persistentvolumeclaims": Resource("v1", "PersistentVolumeClaim"),
    "resourcequotas": Resource("v1", "ResourceQuota"),
    "events": Resource("v1", "Event"),
    "deployments": Resource("apps/v1", "Deployment"),
    "clusterroles": Resource(RBAC, "ClusterRole", namespaced=False),
    "servicecidrs": Resource(NETWORKING, "ServiceCIDR", namespaced=False),
    "ipaddresses": Resource(NETWORKING, "IPAddress", namespaced=False),
    "resourceclaims": Resource(DRA, "ResourceClaim"),
    "resourceclaimtemplates": Resource(DRA, "ResourceClaimTemplate"),
    "deviceclasses": Resource(DRA, "DeviceClass", namespaced=False),
    "podgroups": Resource("scheduling.k8s.io/v1alpha2", "PodGroup"),
    "priorityclasses": Resource("scheduling.k8s.io/v1", "PriorityClass", namespaced=False),
    "runtimeclasses": Resource("node.k8s.io/v1", "RuntimeClass", namespaced=False),
    "widgets": Resource("quota.example.com/v1", "Widget"),
    "customresourcedefinitions": Resource(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False
    ),
}


@dataclass(frozen=True, slots=True)
class Ref:
    """One object by name, written `nodes/NAME` or `pods/NAMESPACE/NAME`."""

    resource: str
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Ref":
        """Read a written reference; `ValueError` when the resource is unknown or parts miss."""
        resource, *parts = text.split("/")
        if resource not in RESOURCES:
            raise ValueError(f"'{text}': no resource '{resource}'; add it to {__file__}")
        if len(parts) != 1 + RESOURCES[resource].namespaced:
            raise ValueError(f"'{text}': write RESOURCE/NAME, or RESOURCE/NAMESPACE/NAME")
        return cls(resource, parts[0] if len(parts) == 2 else "", parts[-1])

    @property
    def collection(self) -> str:
        """The path under which it is created."""
        known = RESOURCES[self.resource]
        within = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{known.root}{within}/{self.resource}"

    @property
    def path(self) -> str:
        """The path of the object itself."""
        return f"{self.collection}/{self.name}"

    def __str__(self) -> str:
        return "/".join(part for part in (self.resource, self.namespace, self.name) if part)
