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
    "namespaces": Resource(kind="v1", verbs="Namespace", namespaced=False),
    "nodes": Resource(kind="v1", verbs="Node", namespaced=False),
    "pods": Resource(kind="v1", verbs="Pod"),
    "services": Resource(kind="v1", verbs="Service"),
    "configmaps": Resource(kind="v1", verbs="ConfigMap"),
    "secrets": Resource(kind="v1", verbs="Secret"),
    "serviceaccounts": Resource(kind="v1", verbs="ServiceAccount"),
    "replicationcontrollers": Resource(kind="v1", verbs="ReplicationController"),
    "persistentvolumeclaims": Resource(kind="v1", verbs="PersistentVolumeClaim"),
    "resourcequotas": Resource(kind="v1", verbs="ResourceQuota"),
    "events": Resource(kind="v1", verbs="Event"),
    "deployments": Resource(kind="apps/v1", verbs="Deployment"),
    "clusterroles": Resource(kind=RBAC, verbs="ClusterRole", namespaced=False),
    "servicecidrs": Resource(kind=NETWORKING, verbs="ServiceCIDR", namespaced=False),
    "ipaddresses": Resource(kind=NETWORKING, verbs="IPAddress", namespaced=False),
    "resourceclaims": Resource(kind=DRA, verbs="ResourceClaim"),
    "resourceclaimtemplates": Resource(kind=DRA, verbs="ResourceClaimTemplate"),
    "deviceclasses": Resource(kind=DRA, verbs="DeviceClass", namespaced=False),
    "podgroups": Resource(kind="scheduling.k8s.io/v1alpha2", verbs="PodGroup"),
    "priorityclasses": Resource(
        kind="scheduling.k8s.io/v1", verbs="PriorityClass", namespaced=False
    ),
    "runtimeclasses": Resource(kind="node.k8s.io/v1", verbs="RuntimeClass", namespaced=False),
    "widgets": Resource(kind="quota.example.com/v1", verbs="Widget"),
    "customresourcedefinitions": Resource(
        kind="apiextensions.k8s.io/v1", verbs="CustomResourceDefinition", namespaced=False
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
