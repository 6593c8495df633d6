"""Names of controllers: their aliases, and what is known of kube-controller-manager's."""

from typing import Final, Protocol


class ControllerNames(Protocol):
    """The names of installed controllers, with their aliases."""

    def name_of(self, spelling: str) -> str:
        """Return the name for which this is an alias; a name or an unknown one is unchanged."""

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return all names of a controller, its own name first."""


class NoAliases:
    """Names without aliases."""

    def name_of(self, spelling: str) -> str:
        """Return the name unchanged."""
        return spelling

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return the name alone."""
        return (name,)


NO_ALIASES: Final = NoAliases()

#: What replaces controllers of kube-controller-manager, for advice to those who lack it.
DISTRIBUTIONS: Final = {
    "clusterrole-aggregation": "kcm-host-clusterrole-aggregation",
    "clusterrole-aggregation-controller": "kcm-host-clusterrole-aggregation",
    "resource-claim-controller": "kcm-host-resourceclaim",
    "resourceclaim": "kcm-host-resourceclaim",
    "resourceclaim-controller": "kcm-host-resourceclaim",
    "resourcequota": "kcm-host-resourcequota",
    "resourcequota-controller": "kcm-host-resourcequota",
    "service-cidr-controller": "kcm-host-servicecidrs",
    "service-cidrs-controller": "kcm-host-servicecidrs",
    "servicecidrs": "kcm-host-servicecidrs",
    "ttl": "kcm-host-ttl",
    "ttl-controller": "kcm-host-ttl",
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


def is_other_upstream_controller(name: str) -> bool:
    """
    Return whether kube-controller-manager has a controller of this name without a plugin here.

    A third-party plugin may still have the name.
    """
    return name in _OTHERS
