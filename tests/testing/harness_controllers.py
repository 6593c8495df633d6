"""Small controllers with one habit each, for the tests of the harness."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from kcm_host.api import (
    EVENT,
    Done,
    Enqueue,
    EnqueueRequest,
    Key,
    Kind,
    Later,
    Model,
    ObjectMeta,
    Outcome,
    Permission,
    Timer,
    Watch,
    hookimpl,
)
from kcm_host_testing.harness import ControllerHarness

NAMESPACE = Kind(group="", version="v1", name="Namespace", resource="namespaces", namespaced=False)
CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
WEBSITE = Kind(group="example.org", version="v1", name="Website", resource="websites")
SECRET = Kind(group="", version="v1", name="Secret", resource="secrets")
LABEL = "example.org/initial"


class Namespace(Model, frozen=True):
    metadata: ObjectMeta


class Data(Model, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it


class Initial:
    """Labels each namespace with the first letter of its name, by an update of what was read."""

    @hookimpl
    def kcm_watches(self) -> list[Watch[Namespace]]:
        return [Watch(kind=NAMESPACE, model=Namespace, keys=self.keys, resync=lambda key: key)]

    def keys(self, change: Any, view: Any) -> Iterable[Enqueue]:
        return [change.key] if change.new is not None else []

    @hookimpl
    def kcm_writes(self) -> list[Permission]:
        own = Permission(kind=NAMESPACE, verb="patch")
        events = [Permission(kind=EVENT, verb="create"), Permission(kind=EVENT, verb="patch")]
        return [own, *events]

    @hookimpl
    async def kcm_sync(self, key: Key, view: Any, writer: Any) -> Outcome:
        namespace = view.of(NAMESPACE, Namespace).get(key.name)
        if namespace is not None and namespace.metadata.labels.get(LABEL) != key.name[0]:
            await writer.patch(NAMESPACE, key, {"metadata": {"labels": {LABEL: key.name[0]}}})
            writer.event(NAMESPACE, key, reason="Labelled", message=key.name[0], warning=False)
        return Done()


Sync = Callable[[Key, Any, Any], Any]


class Acting:
    """Does in its sync what the test says, with watches and writes as the test says."""

    def __init__(
        self,
        sync: Sync | None = None,
        *,
        writes: Iterable[Permission] = (),
        keys: Callable[[Any, Any], Iterable[Enqueue]] | None = None,
        timers: Iterable[Timer] = (),
        **watch: Any,
    ) -> None:
        self._sync = sync
        self._writes = list(writes)
        self._timers = list(timers)
        if keys is not None:
            watch["keys"] = keys
        self._watch: dict[str, Any] = {"keys": lambda change, view: [change.key], **watch}
        self.served: list[str] = []
        self.synced_keys: list[Enqueue] = []

    @hookimpl
    def kcm_watches(self) -> list[Watch[Data]]:
        return [Watch(kind=CONFIG_MAP, model=Data, **self._watch)]

    @hookimpl
    def kcm_dynamic_watches(self, discovery: Any) -> list[Watch[Data]]:
        if not discovery.serves(WEBSITE):
            return []
        return [Watch(kind=WEBSITE, model=Data, keys=lambda change, view: [change.key])]

    @hookimpl
    def kcm_synced(self) -> list[Enqueue]:
        return self.synced_keys

    @hookimpl
    def kcm_writes(self) -> list[Permission]:
        return self._writes

    @hookimpl
    def kcm_timers(self) -> list[Timer]:
        return self._timers

    @hookimpl
    async def kcm_sync(self, key: Key, view: Any, writer: Any) -> Outcome:
        result: Outcome | None = None
        if self._sync is not None:
            result = await self._sync(key, view, writer)
        return result or Done()


def config_map(name: str = "a", **data: str) -> dict[str, Any]:
    """Return a ConfigMap with these data."""
    return {"metadata": {"name": name, "namespace": "ns"}, "data": data}


def harness_with_a(sync: Sync | None = None, **options: Any) -> ControllerHarness:
    """Return the harness of an `Acting` controller, with ConfigMap `ns/a`."""
    harness = ControllerHarness(Acting(sync, **options))
    harness.put(CONFIG_MAP, config_map())
    return harness


def permissions(*verbs: str, kind: Kind = CONFIG_MAP) -> list[Permission]:
    """Return a permission for each `verb` or `verb/subresource`."""
    parts: Iterator[Any] = (verb.partition("/") for verb in verbs)
    return [Permission(kind=kind, verb=verb, subresource=sub) for verb, _, sub in parts]


def later(seconds: float) -> Later:
    """Return a `Later` of so many seconds."""
    return Later(timedelta(seconds=seconds))


def after(name: str, seconds: float) -> EnqueueRequest:
    """Return a request for a key that is due after so many seconds."""
    return EnqueueRequest(Key(name, "ns"), after=timedelta(seconds=seconds))
