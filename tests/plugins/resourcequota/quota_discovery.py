"""The API resources of the server in memory of the quota cluster."""

from collections.abc import Sequence

from kcm_host.api import Kind, Resource
from kcm_host_resourcequota.evaluators.extended_resources import DEVICE_CLASS
from kcm_host_resourcequota.evaluators.persistentvolumeclaims import PERSISTENT_VOLUME_CLAIM
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.evaluators.resourceclaims import RESOURCE_CLAIM
from kcm_host_resourcequota.evaluators.services import SERVICE
from kcm_host_resourcequota.models import RESOURCE_QUOTA

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
SECRET = Kind(group="", version="v1", name="Secret", resource="secrets")
WIDGET = Kind(group="example.com", version="v1", name="Widget", resource="widgets")
ALL_VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})
SERVED = (POD, SERVICE, PERSISTENT_VOLUME_CLAIM, CONFIG_MAP, SECRET, RESOURCE_QUOTA, RESOURCE_CLAIM)


class Discovery:
    """The API resources; a test changes `kinds`."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = [*SERVED, DEVICE_CLASS, *kinds]
        self.extra: list[Resource] = []

    def resources(self) -> Sequence[Resource]:
        return [
            *(Resource(kind=kind, verbs=ALL_VERBS, preferred=True) for kind in self.kinds),
            *self.extra,
        ]

    def serves(self, kind: Kind) -> bool:
        return kind in self.kinds

    def first_served(self, *kinds: Kind) -> Kind | None:
        return next((kind for kind in kinds if kind in self.kinds), None)
