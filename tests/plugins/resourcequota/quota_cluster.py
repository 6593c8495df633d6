"""The quota controller between a server in memory and the real stores of the host."""

import asyncio
import itertools
import json
import math
from collections.abc import Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

import msgspec
from plugins.resourcequota.quota_discovery import Discovery
from plugins.resourcequota.quota_objects import Manifest
from plugins.resourcequota.quota_streams import WatchStream

from kcm_host.api import (
    AnyWatch,
    Change,
    Conflict,
    Enqueue,
    EnqueueRequest,
    HostError,
    Key,
    Kind,
    Later,
    NotFound,
    Outcome,
    Priority,
    Quantity,
    RefreshWatches,
    Writer,
)
from kcm_host.api.quantity import canonical
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.plugins.validation import validate_dynamic_watches, validate_watches
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.evaluators.extended_resources import DEVICE_CLASS
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings

T = TypeVar("T")

#: 2026-01-01, in Unix seconds.
START_TIME = 1767225600.0


def run(sync: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        sync.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the sync waits for something")


class QuotaCluster:
    """
    A server, the watches of one controller, and its queue.

    Nothing runs by itself: `run_due` runs the keys that are due, `advance` moves the clocks and
    runs the timers and keys that become due.
    """

    def __init__(
        self, *, discovery: Discovery | None = None, settle: float = 10.0, resync: float = 300.0
    ) -> None:
        self.clock = 1000.0
        self.wall = START_TIME
        self.discovery = discovery or Discovery()
        self.settings = QuotaSettings.model_validate(
            {"settleTime": timedelta(seconds=settle), "resyncPeriod": timedelta(seconds=resync)}
        )
        self.controller = ResourceQuota(
            self.settings, clock=lambda: self.clock, wall=lambda: self.wall
        )
        self.objects: dict[Kind, dict[Key, Manifest]] = {}
        self.watch_streams: dict[Kind, WatchStream] = {}
        #: Kinds whose first list fails, and the error.
        self.unlistable: dict[Kind, str] = {}
        self.stores = Stores()
        self.view = CacheView("resourcequota", self.stores)
        self.handlers: dict[tuple[Kind, type[Any]], WatchHandler] = {}
        self.updates: list[Manifest] = []
        self.errors: list[HostError] = []
        #: Raised in place of the responses to the next updates, which are stored.
        self.lost_responses: list[BaseException] = []
        self.events: list[tuple[Key, str, str]] = []
        self.due: dict[Key, Priority] = {}
        self.failures: dict[Key, int] = {}
        self.syncs: list[Key] = []
        #: Delayed keys; of several times the earliest counts, as in the host's queue.
        self.later: dict[Key, tuple[float, Priority]] = {}
        self._numbers = itertools.count(1)
        self.needs_refresh = False

    # -- the server

    def put(self, kind: Kind, manifest: Manifest) -> Key:
        """Create or replace an object."""
        metadata = manifest.setdefault("metadata", {})
        key = Key(metadata["name"], metadata.get("namespace", ""))
        old = self.objects.setdefault(kind, {}).get(key)
        version = next(self._numbers)
        uid = old["metadata"]["uid"] if old else metadata.get("uid", f"uid-{version}")
        stored = {**manifest, "metadata": {**metadata, "uid": uid, "resourceVersion": str(version)}}
        self.objects[kind][key] = stored
        self.send_event(kind, "MODIFIED" if old else "ADDED", stored)
        return key

    def delete(self, kind: Kind, key: Key) -> None:
        """Delete an object."""
        self.send_event(kind, "DELETED", self.objects[kind].pop(key))

    def send_event(self, kind: Kind, sort: str, manifest: Manifest) -> None:
        if kind in self.watch_streams:
            self.watch_streams[kind].send(sort, manifest)

    def get(self, kind: Kind, key: Key) -> Manifest:
        """Return an object as the server has it."""
        return self.objects[kind][key]

    def relist(self, kind: Kind) -> None:
        """Send a new list; waiting events are lost, as after a failed watch."""
        stream = self.watch_streams[kind]
        if stream.informer.has_synced:
            stream.list(self.objects.get(kind, {}).values())

    def hold(self, kind: Kind) -> None:
        """Hold the events of a kind back from now on."""
        self.watch_streams[kind].is_held = True

    def release(self, kind: Kind) -> None:
        """Send the events of a kind that were held back."""
        self.watch_streams[kind].is_held = False
        self.watch_streams[kind].deliver()

    # -- quotas and admission

    def quota(
        self,
        *names: str,
        name: str = "q",
        namespace: str = "a",
        hard: Mapping[str, str] | None = None,
        status: Manifest | None = None,
        **spec: Any,
    ) -> Key:
        """Create a quota that limits these names to 100, or `hard`."""
        limits = {**dict.fromkeys(names, "100"), **(hard or {})}
        manifest: Manifest = {"metadata": {"name": name, "namespace": namespace}}
        manifest["spec"] = {"hard": limits, **spec}
        manifest["status"] = status or {}
        return self.put(RESOURCE_QUOTA, manifest)

    def declare(self, explicit: str = "", *, name: str = "gpu") -> None:
        """Create or replace a device class with an explicit extended resource, empty for none."""
        spec = {"extendedResourceName": explicit} if explicit else {}
        self.put(DEVICE_CLASS, {"metadata": {"name": name}, "spec": spec})

    def set_hard(self, key: Key, **hard: str) -> None:
        """Replace `spec.hard`; names with dashes and slashes are passed as `**dict`."""
        manifest = self.get(RESOURCE_QUOTA, key)
        self.put(RESOURCE_QUOTA, {**manifest, "spec": {**manifest["spec"], "hard": hard}})

    def used(self, key: Key) -> dict[str, str]:
        """Return `status.used` as the server has it."""
        return dict(self.get(RESOURCE_QUOTA, key)["status"].get("used") or {})

    def set_used(self, key: Key, **used: str) -> None:
        """Write `status.used` as another writer, with `status.hard` like the spec."""
        manifest = self.get(RESOURCE_QUOTA, key)
        status = {"hard": manifest["spec"]["hard"], "used": used}
        self.put(RESOURCE_QUOTA, {**manifest, "status": status})

    def admit(self, key: Key, **amounts: int) -> None:
        """Raise `status.used` as admission does before it lets a request through (RQ-251)."""
        manifest = self.get(RESOURCE_QUOTA, key)
        used = {**(manifest["status"].get("used") or {})}
        for name, amount in amounts.items():
            present = Quantity.parse(used[name])
            used[name] = canonical(present.nano + amount * 10**9, present.format)
        self.put(RESOURCE_QUOTA, {**manifest, "status": {**manifest["status"], "used": used}})

    # -- the host

    def start(self) -> None:
        """Start the controller, run it until nothing is due, and advance by 0.06 s."""
        self.fixed_watches = validate_watches(self.controller.kcm_watches(self.discovery))
        self.add_watches(*self.fixed_watches)
        self._fixed = set(self.handlers)
        self.refresh_watches()
        self.timers: list[list[Any]] = [
            [self.clock + timer.every.total_seconds(), timer]
            for timer in self.controller.kcm_timers()
        ]
        self.advance(0.06)

    def add_watches(self, *watches: AnyWatch) -> None:
        """Add watches: as in the host, all stores exist before anything is listed."""
        for watch in watches:
            self._add_watch(watch)
        for kind in dict.fromkeys(watch.kind for watch in watches):
            if kind not in self.unlistable:
                self.watch_streams[kind].list(self.objects.get(kind, {}).values())

    def _add_watch(self, watch: AnyWatch) -> None:
        """Add one watch; a second model of a kind restarts its stream, as in the host."""
        self.handlers[watch.kind, watch.model] = WatchHandler(self, watch)
        stream = self.watch_streams[watch.kind] = WatchStream(watch.kind)
        for (kind, model), handler in self.handlers.items():
            if kind != watch.kind:
                continue
            stream.informer.add_event_handler(model, handler)
            store = stream.informer.typed_informer(model).store
            self.stores.add(f"{kind} {model}", model, store, index_owner="resourcequota")
            store.keep_full_objects = handler.watch.full_object
            store.notify_unchanged = handler.watch.notify_unchanged
            store.reflector_error = lambda: self.unlistable.get(watch.kind, "")
            for index, function in handler.watch.indexes.items():
                store.add_index("resourcequota", index, function, _raise)

    def make_listable(self, kind: Kind) -> None:
        """Send the list of a kind that could not be listed."""
        self.unlistable.pop(kind)
        if kind in self.watch_streams:
            self.watch_streams[kind].list(self.objects.get(kind, {}).values())

    def refresh_watches(self) -> None:
        """Update the watches to those the controller needs, as after a `RefreshWatches`."""
        self.needs_refresh = False
        watches = validate_dynamic_watches(
            self.controller.kcm_dynamic_watches(self.discovery), besides=self.fixed_watches
        )
        wanted = {(watch.kind, watch.model): watch for watch in watches}
        for watch in list(self.handlers):
            if watch not in wanted and watch not in self._fixed:
                del self.handlers[watch], self.watch_streams[watch[0]]
                self.stores.remove(f"{watch[0]} {watch[1]}")
        self.add_watches(*(wanted[watch] for watch in wanted if watch not in self.handlers))

    def enqueue(self, wanted: Iterable[Enqueue]) -> None:
        """Enqueue what the controller returns."""
        for each in wanted:
            match each:
                case RefreshWatches():
                    self.needs_refresh = True
                case Key():
                    self.add(each, Priority.NORMAL)
                case EnqueueRequest(key, lane, after):
                    self.add(key, lane, after.total_seconds())

    def add(self, key: Key, lane: Priority, seconds: float = 0.0) -> None:
        if seconds > 0:
            due, waiting = self.later.get(key, (math.inf, Priority.IDLE))
            self.later[key] = (min(due, self.clock + seconds), min(lane, waiting))
            return
        self.due[key] = min(lane, self.due.get(key, Priority.IDLE))

    def run_due(self) -> list[Key]:
        """Run the keys that are due, urgent ones first, and return them in order."""
        done: list[Key] = []
        while self.needs_refresh or self.due:
            assert len(done) < 1000, "there is always something to do"
            if self.needs_refresh:
                self.refresh_watches()
                continue
            key = min(self.due, key=lambda each: (self.due[each], str(each)))
            del self.due[key]
            done.append(key)
            self.sync(key)
        return done

    def sync(self, key: Key) -> Outcome | BaseException:
        """Sync one quota; a failure is retried with backoff, as in the host."""
        self.syncs.append(key)
        try:
            outcome = run(self.controller.kcm_sync(key, self.view, cast(Writer, self)))
        except (HostError, asyncio.CancelledError) as error:
            failures = self.failures[key] = self.failures.get(key, 0) + 1
            self.add(key, Priority.NORMAL, 0.005 * 2 ** (failures - 1))
            return error
        self.failures.pop(key, None)
        if isinstance(outcome, Later):
            self.add(key, Priority.NORMAL, outcome.after.total_seconds())
        return outcome

    def advance(self, seconds: float) -> None:
        """Advance the clocks, and run everything that becomes due."""
        end = self.clock + seconds
        self.run_due()
        while (moment := self._next()) <= end:
            self.wall += max(moment - self.clock, 0.0)
            self.clock = max(moment, self.clock)
            for timer in self.timers:
                if timer[0] <= self.clock:
                    timer[0] += timer[1].every.total_seconds()
                    self.enqueue(timer[1].keys(self.view))
            for key, (due, lane) in list(self.later.items()):
                if due <= self.clock:
                    del self.later[key]
                    self.add(key, lane)
            self.run_due()
        self.wall += end - self.clock
        self.clock = end

    def _next(self) -> float:
        times = [due for due, _ in self.later.values()] + [timer[0] for timer in self.timers]
        return min(times, default=math.inf)

    # -- the writer

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """Store a status as the server does, and send the event."""
        assert (kind, subresource) == (RESOURCE_QUOTA, "status")
        sent = json.loads(msgspec.json.encode(whole))
        self.updates.append(sent)
        if self.errors:
            raise self.errors.pop(0)
        key = Key(sent["metadata"]["name"], sent["metadata"]["namespace"])
        stored = self.objects[kind].get(key)
        if stored is None:
            raise NotFound("gone", status=404)
        if stored["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"]:
            raise Conflict("changed meanwhile", status=409)
        status = {name: value for name, value in sent["status"].items() if value}
        if status != stored.get("status"):
            self.put(kind, {**stored, "status": status})
        if self.lost_responses:
            raise self.lost_responses.pop(0)
        return self.objects[kind][key]

    def event(
        self,
        kind: Kind,
        key: Key,
        *,
        reason: str,
        message: str,
        warning: bool = True,
        component: str = "",
    ) -> None:
        """Record an Event."""
        assert (kind, warning, component) == (RESOURCE_QUOTA, True, "resourcequota-controller")
        self.events.append((key, reason, message))


def started(
    *names: str,
    pods: Iterable[Manifest] = (),
    discovery: Discovery | None = None,
    settle: float = 10.0,
    resync: float = 300.0,
    **quota: Any,
) -> tuple[QuotaCluster, Key]:
    """Return a running cluster with these pods and one quota, with a right status."""
    cluster = QuotaCluster(discovery=discovery, settle=settle, resync=resync)
    for each in pods:
        cluster.put(POD, each)
    key = cluster.quota(*names, **quota)
    cluster.start()
    return cluster, key


class WatchHandler:
    """The event handler of one watch of the controller."""

    def __init__(self, cluster: QuotaCluster, watch: AnyWatch) -> None:
        self.cluster = cluster
        self.watch = watch
        self.was_synced = False

    def on_change(self, change: Change[Any]) -> None:
        self.cluster.enqueue(self.watch.keys(change, self.cluster.view))

    def on_synced(self) -> None:
        if self.watch.on_synced is not None and not self.was_synced:
            self.was_synced = True
            self.cluster.enqueue(self.watch.on_synced(self.cluster.view))


def watched(cluster: QuotaCluster) -> set[Kind]:
    """Return the kinds that are watched beside quotas."""
    return set(cluster.watch_streams) - {RESOURCE_QUOTA}


def _raise(_key: Key, error: BaseException) -> None:
    raise error
