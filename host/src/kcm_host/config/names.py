"""Names of controllers: the short ones, their aliases, and others of kube-controller-manager."""

from typing import Final

SHORT_NAMES: Final = (
    "clusterrole-aggregation",
    "resourceclaim",
    "resourcequota",
    "servicecidrs",
    "ttl",
)

_ALIASES: Final = {
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "resource-claim-controller": "resourceclaim",
    "resourceclaim-controller": "resourceclaim",
    "resourcequota-controller": "resourcequota",
    "service-cidr-controller": "servicecidrs",
    "service-cidrs-controller": "servicecidrs",
    "ttl-controller": "ttl",
}

_ACCOUNTS: Final = {
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
    "resourceclaim": "resource-claim-controller",
    "resourcequota": "resourcequota-controller",
    "servicecidrs": "service-cidrs-controller",
    "ttl": "ttl-controller",
}

_OTHERS_WITH_SUFFIX: Final = """
bootstrap-signer certificatesigningrequest-approving certificatesigningrequest-cleaner
certificatesigningrequest-signing cloud-node-lifecycle cronjob daemonset deployment
device-taint-eviction disruption endpoints endpointslice endpointslice-mirroring ephemeral-volume
garbage-collector horizontal-pod-autoscaler job kube-apiserver-serving-clustertrustbundle-publisher
legacy-serviceaccount-token-cleaner namespace node-ipam node-lifecycle node-route
persistentvolume-attach-detach persistentvolume-binder persistentvolume-expander
persistentvolume-protection persistentvolumeclaim-protection pod-garbage-collector
podcertificaterequest-cleaner podgroup-protection replicaset replicationcontroller
resourcepoolstatusrequest root-ca-certificate-publisher selinux-warning service-lb serviceaccount
serviceaccount-token statefulset storage-version-migrator storageversion-garbage-collector
taint-eviction token-cleaner ttl-after-finished validatingadmissionpolicy-status
volumeattributesclass-protection
"""

_OTHER_ALIASES: Final = """
attachdetach bootstrapsigner cloud-node-lifecycle cronjob csrapproving csrcleaner csrsigning
daemonset deployment disruption endpoint endpointslice endpointslicemirroring ephemeral-volume
garbagecollector horizontalpodautoscaling job legacy-service-account-token-cleaner namespace
nodeipam nodelifecycle persistentvolume-binder persistentvolume-expander podgc pv-protection
pvc-protection replicaset replicationcontroller root-ca-cert-publisher route service serviceaccount
serviceaccount-token statefulset storage-version-gc svm tokencleaner ttl-after-finished
"""

_OTHERS: Final = frozenset(
    [f"{name}-controller" for name in _OTHERS_WITH_SUFFIX.split()] + _OTHER_ALIASES.split()
)


def short_name(name: str) -> str:
    """Return the short name of an alias; other names are returned unchanged."""
    return _ALIASES.get(name, name)


def service_account(name: str) -> str:
    """Return the service account of a controller, for which the API server has a role (H-35)."""
    return _ACCOUNTS.get(name, name)


def spellings(name: str) -> tuple[str, ...]:
    """Return all names of a controller, its short name first."""
    short = short_name(name)
    return (short, *(alias for alias, target in _ALIASES.items() if target == short))


def is_other_upstream_controller(name: str) -> bool:
    """
    Return whether kube-controller-manager has a controller of this name without a plugin here.

    A third-party plugin may still have the name.
    """
    return name in _OTHERS
