"""The toy controller: copies a value of every ConfigMap that has it into an annotation."""

import msgspec

from kcm_host.api import (
    ControllerInfo,
    Done,
    Key,
    Kind,
    Model,
    Permission,
    View,
    Watch,
    Writer,
    hookimpl,
)

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
SEEN = "toy.example.org/seen"
# Twice the default, for a slow API server: nearly all of a sync is to wait for the answer.
WORKERS = 10


class Annotations(Model, frozen=True):
    """The one annotation that is read."""

    seen: str | None = msgspec.field(name=SEEN, default=None)


class Metadata(Model, frozen=True):
    """The metadata of a ConfigMap."""

    annotations: Annotations = Annotations()


class Data(Model, frozen=True):
    """The one value that is read."""

    value: str | None = None


class ConfigMap(Model, frozen=True):
    """A ConfigMap."""

    metadata: Metadata
    data: Data = Data()


class Toy:
    """Keeps the annotation of every ConfigMap equal to its value."""

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """Return how many syncs run at the same time: each waits for its patch."""
        return ControllerInfo(workers=WORKERS)

    @hookimpl
    def kcm_watches(self) -> list[Watch[ConfigMap]]:
        """Watch all ConfigMaps."""
        return [Watch(kind=CONFIG_MAP, model=ConfigMap)]

    @hookimpl
    def kcm_writes(self) -> list[Permission]:
        """Return the permission to patch ConfigMaps."""
        return [Permission(kind=CONFIG_MAP, verb="patch")]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Done:
        """Patch the annotation of one ConfigMap if it is not the value."""
        found = view.of(CONFIG_MAP, ConfigMap).get(key.name, key.namespace)
        desired = found.data.value if found else None
        if found and desired is not None and found.metadata.annotations.seen != desired:
            patch = {"metadata": {"annotations": {SEEN: desired}}}
            await writer.patch(CONFIG_MAP, key, patch)
        return Done()
