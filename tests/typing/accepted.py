"""What an author writes, without an error of a type checker."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api import (
    EVENTS,
    AnyWatch,
    Change,
    Condition,
    ControllerInfo,
    Discovery,
    Done,
    Enqueue,
    EnqueueRequest,
    Key,
    Kind,
    Later,
    Metric,
    Model,
    ObjectMeta,
    Outcome,
    Permission,
    Priority,
    Quantity,
    RefreshWatches,
    Settings,
    Terminal,
    Timer,
    View,
    Watch,
    Writer,
    hookimpl,
    owner_keys,
    owner_reference,
    set_condition,
)

SITE = Kind(group="example.org", version="v1", name="Website", resource="websites")
POD = Kind(group="", version="v1", name="Pod", resource="pods")


class Status(Model, frozen=True):
    """A part of a model."""

    conditions: tuple[Condition, ...] = ()


class Site(Model, frozen=True):
    """A model."""

    metadata: ObjectMeta
    status: Status = Status()
    size: str = "0"


class SiteSettings(Settings):
    """Settings."""

    most: int = 3


class Sites:
    """A controller with every hook."""

    def __init__(self, settings: SiteSettings) -> None:
        self._most = settings.most
        self._size = Quantity.parse("0")

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """See the hook."""
        return ControllerInfo(aliases=("site",), workers=2, sync_timeout=timedelta(seconds=5))

    @staticmethod
    @hookimpl
    def kcm_settings() -> type[SiteSettings]:
        """See the hook."""
        return SiteSettings

    @hookimpl
    def kcm_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """See the hook."""
        if not discovery.serves(SITE):
            return []
        return [
            Watch(kind=SITE, model=Site, keys=self._keys, indexes={"size": self._sizes}),
            Watch(kind=POD, model=Site, keys=owner_keys(SITE), name="pods of sites"),
        ]

    @hookimpl
    def kcm_dynamic_watches(self, view: View, discovery: Discovery) -> Sequence[AnyWatch]:
        """See the hook."""
        return []

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """See the hook."""
        return [Permission(kind=SITE, verb="patch", subresource="status"), *EVENTS]

    @hookimpl
    def kcm_timers(self) -> Sequence[Timer]:
        """See the hook."""
        return [Timer(every=timedelta(hours=1), keys=lambda view: [RefreshWatches()])]

    @hookimpl
    def kcm_synced(self, view: View) -> Iterable[Enqueue]:
        """See the hook."""
        return [key for key, _ in view.of(SITE, Site).items()]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """See the hook."""
        site = view.of(SITE, Site).get(key.name, key.namespace)
        if site is None:
            return Done()
        if Quantity.parse(site.size) > self._size + Quantity.parse("1Gi"):
            return Terminal("too large")
        ready = Condition(type="Ready", status="True")
        body = {"status": {"conditions": set_condition(site.status.conditions, ready)}}
        response = await writer.patch(SITE, key, body, type="merge", subresource="status")
        child = {"metadata": {"ownerReferences": [owner_reference(SITE, site.metadata)]}}
        created: dict[str, Any] = await writer.create(POD, child, namespace=key.namespace)
        await writer.ensure_finalizer(SITE, site.metadata, "example.org/f")
        writer.event(SITE, key, reason="Made", message=str(created), warning=False)
        return Later(timedelta(minutes=1)) if response.created else Done()

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """See the hook."""
        return {"sites": len(view.of(SITE, Site)), "most": self._most}

    @hookimpl
    def kcm_metrics(self) -> Sequence[Metric]:
        """See the hook."""
        return [Metric(name="sites", help="Sites.", type="gauge", series=(({}, 1.0),))]

    def _keys(self, change: Change[Site], view: View) -> Iterable[Enqueue]:
        if change.new is not None and change.new.metadata.generation > 1:
            yield EnqueueRequest(change.key, priority=Priority.URGENT, after=timedelta(seconds=1))
        yield change.key

    def _sizes(self, key: Key, site: Site) -> Iterable[str]:
        return [site.size]
