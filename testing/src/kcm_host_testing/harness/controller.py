"""One run of a controller in memory: the parts of the host around it, driven step by step."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from kcm_host.api import AnyWatch, Cause, HostError, Key, Kind, Metric, Outcome, Timer, View, Writer
from kcm_host.api.sync import SyncRecord
from kcm_host.api.watch import object_key
from kcm_host.informer.cache_view import CacheView, Stores
from kcm_host.plugins.plugin import Instance
from kcm_host.reconcile.read_your_writes import ReadYourWrites
from kcm_host.reconcile.worker import SyncTimeLimit, WorkerContext, failed_sync_log, sync_item
from kcm_host.runtime.dynamic_watches import HOOK, DynamicWatches
from kcm_host.runtime.event_handlers import EventDispatcher, RestartReason, WatchSet
from kcm_host.runtime.periodic import fire
from kcm_host.workqueue.queue import Item
from kcm_host_testing.harness.discovery import ServedKinds
from kcm_host_testing.harness.errors import HarnessError
from kcm_host_testing.harness.informers import Informers
from kcm_host_testing.harness.instance import CheckedInstance
from kcm_host_testing.harness.queue import RecordingQueue
from kcm_host_testing.harness.sender import RecordingSender
from kcm_host_testing.harness.shared_objects import CheckedView, SharedObjects

#: How often one key may be synced until the queue is idle: a chain of writes needs a few syncs.
MAX_SYNCS = 100


class SyncResult(NamedTuple):
    """The result of one sync: what it has returned, or the exception that it has raised."""

    key: Key
    result: Outcome | Exception


class RecordedEvent(NamedTuple):
    """One Kubernetes Event that a sync has recorded."""

    kind: Kind
    key: Key
    reason: str
    message: str
    warning: bool
    component: str

    def __str__(self) -> str:
        type_ = "Warning" if self.warning else "Normal"
        return f"{type_} {self.reason} {self.kind} {self.key}: {self.message}"


class Recorded(NamedTuple):
    """What a controller has done, in order; the lists are those of the harness."""

    enqueued: list[Key]
    outcomes: list[SyncResult]
    events: list[RecordedEvent]


class ControllerInMemory:
    """
    One run of a controller, in the order of the host: lists, `keys`, `kcm_synced`, then syncs.

    It has no tasks: time passes, and keys are synced, only within its methods.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        informers: Informers,
        sender: RecordingSender,
        discovery: ServedKinds,
        recorded: Recorded,
    ) -> None:
        self.name = instance.plugin.name
        self.watches = instance.watches(discovery)
        self._asked = set(discovery.asked)
        self._loop = asyncio.get_running_loop()
        self._instance = instance
        self._informers = informers
        self._sender = sender
        self._recorded = recorded
        self._shared = SharedObjects()
        self._failure: BaseException | None = None
        self._result: Outcome | Exception | None = None
        self._stores = Stores()
        self.queue = RecordingQueue(self._loop, recorded.enqueued)
        view = CheckedView(CacheView(self.name, self._stores), self._shared)
        self._dispatcher = EventDispatcher(
            self.queue, view, self._fail, module=instance.plugin.module
        )
        #: The required watches, the others of `kcm_watches`, and the dynamic ones.
        self._sets = tuple(self._watch_set() for _ in range(3))
        self._dynamic = self._dynamic_watches(discovery) if instance.has(HOOK) else None
        self._context = self._worker_context(instance)
        limit = self._context.sync_timeout_seconds
        self._limit = SyncTimeLimit(lambda _running: None, seconds=limit)

    async def start(self) -> None:
        """List all watches and call `keys` for the initial objects, then `kcm_synced`."""
        required, optional, _ = self._sets
        for watch in self.watches:
            (required if watch.required else optional).add(self._checked(watch))
        self._informers.start()
        problems = required.problems()
        if problems:
            raise HarnessError(f"no sync would start: {'; '.join(problems)}; call serve()")
        await self._until_notified()
        if self._instance.has("kcm_synced"):
            function = self._shared.checked(self._instance.synced, "'kcm_synced'")
            self._dispatcher.call(function, cause=lambda: _cause("synced"), source="'kcm_synced'")
        for timer in self._instance.timers():
            self._schedule(timer, self._loop.time() + timer.every.total_seconds())
        if self._dynamic is not None:
            self._dynamic.refresh()
        await self._refresh()

    async def deliver(self) -> None:
        """Deliver the changes that were recorded, and act on what this has requested."""
        self._informers.deliver()
        await self._until_notified()
        await self._refresh()

    async def relist(self) -> None:
        """List all watches again, and those whose kind has come to be served."""
        self._informers.start()
        self._informers.relist()
        await self.deliver()

    async def served_changed(self, kind: Kind) -> None:
        """Act on a change of the served kinds, as the host does when discovery shows it."""
        if kind in self._asked:
            self._failure = HarnessError(
                f"'kcm_watches' has asked whether '{kind}' is served, and this has changed: the "
                "host restarts the controller if it returns other watches now; call restart()"
            )
            return
        self._informers.start()
        if self._dynamic is not None:
            self._dynamic.refresh()
        await self.deliver()

    def resync_keys(self) -> list[Key]:
        """Return the keys that the resync of the host would queue."""
        found: dict[Key, None] = {}
        is_known = False
        for watches in self._sets:
            for watch, store, _ in watches.active():
                resync = watch.resync or (_same if watch.keys is object_key else None)
                is_known = is_known or resync is not None
                if resync is not None:
                    readable = (key for key, _ in store.items() if key not in store.undecodable)
                    found |= dict.fromkeys(map(resync, readable))
        if not is_known:
            raise HarnessError("no watch has `resync`, so that the keys are not known; give `keys`")
        return list(found)

    def status(self) -> Mapping[str, Any]:
        """Return the result of `kcm_status`."""
        return self._instance.status(self._dispatcher.view)

    def metrics(self) -> tuple[Metric, ...]:
        """Return the result of `kcm_metrics`."""
        return self._instance.metrics(self._dispatcher.view)

    async def sync(self, key: Key) -> Outcome | Exception:
        """Sync one key now, whether or not it is queued, and return its result."""
        return await self._sync_item(
            Item(key=key, causes=(_cause("test"),), merged=1, queued_seconds=0.0)
        )

    async def run_until_idle(self, *, attempts: int) -> None:
        """Sync all queued keys, and those that wait for a retry or a debounce."""
        self.check()
        syncs: dict[Key, int] = {}
        failures: dict[Key, int] = {}
        while True:
            if self.queue.has_ready:
                await self._sync_queued(await self.queue.get(), syncs, failures, attempts=attempts)
            elif (seconds := self.queue.seconds_until_next()) is not None:
                await asyncio.sleep(seconds)
                await self._refresh()
            else:
                return

    async def advance(self, seconds: float, *, attempts: int) -> None:
        """Pass this time, and sync each key that is queued or becomes due meanwhile."""
        self.check()
        end = self._loop.time() + seconds
        syncs: dict[Key, int] = {}
        failures: dict[Key, int] = {}
        while self.queue.has_ready or self._loop.time() < end:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    item = await self.queue.get()
                await self._sync_queued(item, syncs, failures, attempts=attempts)
            await self._refresh()

    async def _sync_queued(
        self, item: Item, syncs: dict[Key, int], failures: dict[Key, int], attempts: int
    ) -> None:
        """Sync a key of the queue; raise `HarnessError` if it comes to no end."""
        try:
            result = await self._sync_item(item)
        finally:
            self.queue.done(item.key)
        key = item.key
        syncs[key] = syncs.get(key, 0) + 1
        failures[key] = failures.get(key, 0) + 1 if isinstance(result, Exception) else 0
        if isinstance(result, Exception) and failures[key] >= attempts:
            text = f"{attempts} syncs of '{key}' have failed, the last one with {result!r}"
            raise HarnessError(text) from result
        if syncs[key] >= MAX_SYNCS:
            raise HarnessError(
                f"'{key}' was synced {MAX_SYNCS} times in a row, the last result is {result!r}; "
                "does each sync write something that queues the key again?"
            )

    async def _sync_item(self, item: Item) -> Outcome | Exception:
        self.check()
        self._result = None
        await sync_item(self._context, self._limit, item)
        self._shared.check(f"the sync of {self.name} '{item.key}'")
        self.check()
        result = self._result
        if result is None:
            raise HarnessError(f"the sync of '{item.key}' was cancelled")
        self._recorded.outcomes.append(SyncResult(item.key, result))
        await self.deliver()
        return result

    async def _sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        try:
            self._result = await self._instance.sync(key, CheckedView(view, self._shared), writer)
        except Exception as error:
            self._result = error
            raise
        return self._result

    def _on_sync(self, record: SyncRecord) -> None:
        if record.outcome == "timeout":
            self._result = TimeoutError(f"the sync of '{record.key}': {record.error}")
        elif record.outcome == "error" and not isinstance(self._result, Exception):
            self._result = HostError(record.error)

    def check(self) -> None:
        """Raise the exception after which the host would restart the controller, or a failure."""
        failure = self._failure or self._sender.failure
        if isinstance(self._result, HarnessError):
            failure = self._result
        if failure is not None:
            self._failure = failure
            raise failure

    def _fail(self, reason: RestartReason) -> None:
        self._failure = reason.error or HarnessError(reason.text)
        if not isinstance(self._failure, HarnessError):
            self._failure.add_note(f"{reason.text}; the host restarts the controller after this")

    async def _until_notified(self) -> None:
        """Return when the initial objects of all listed watches have gone through `keys`."""
        while self._is_notifying() and not self._dispatcher.closed:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
        self.check()

    def _is_notifying(self) -> bool:
        active = (each for watches in self._sets for each in watches.active())
        return any(not each.is_synced and not each.store.reflector_error() for each in active)

    async def _refresh(self) -> None:
        """Call `kcm_dynamic_watches` as long as something requests it."""
        requested = self._dispatcher.refresh_requested
        while self._dynamic is not None and requested.is_set():
            task = asyncio.ensure_future(self._dynamic.run())
            # Its first step ends with a pause of 0.1 s, which nothing here waits for.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            await self._until_notified()
            problems = [each for each in self._dynamic.problems() if HOOK in each]
            if problems:
                raise HarnessError("; ".join(problems))
        self.check()

    def _schedule(self, timer: Timer, due: float) -> None:
        def call() -> None:
            fire(replace(timer, keys=self._shared.checked(timer.keys, "a timer")), self._dispatcher)
            self._schedule(timer, due + timer.every.total_seconds())

        self._loop.call_at(due, call)

    def _checked(self, watch: AnyWatch) -> AnyWatch:
        keys = watch.keys
        if keys is not object_key:
            keys = self._shared.checked(keys, f"'keys' of {self.name} for {watch.kind}")
        on_synced = watch.on_synced
        if on_synced is not None:
            on_synced = self._shared.checked(on_synced, f"'on_synced' of {watch.kind}")
        return replace(watch, keys=keys, on_synced=on_synced)

    def _watch_set(self) -> WatchSet:
        informers: Any = self._informers
        return WatchSet(
            controller=self.name,
            informers=informers,
            dispatcher=self._dispatcher,
            stores=self._stores,
        )

    def _dynamic_watches(self, discovery: ServedKinds) -> DynamicWatches:
        instance: Any = CheckedInstance(self._instance, self._checked, self._shared)
        return DynamicWatches(
            instance, discovery=discovery, dispatcher=self._dispatcher, watches=self._sets[2]
        )

    def _worker_context(self, instance: Instance) -> WorkerContext:
        return WorkerContext(
            controller=self.name,
            sync=self._sync,
            queue=self.queue,
            stores=self._stores,
            sender=self._sender,
            permissions=instance.writes(),
            on_sync=self._on_sync,
            on_write=lambda _controller, _record: None,
            is_resync_only=lambda _key: False,
            read_your_writes=ReadYourWrites(self._stores),
            failed_syncs=failed_sync_log(),
            sync_timeout_seconds=instance.plugin.info.sync_timeout.total_seconds(),
            record_event=self._record_event,
            module=instance.plugin.module,
        )

    def _record_event(self, kind: Kind, key: Key, **event: Any) -> None:
        if self._informers.has(kind, key):
            self._recorded.events.append(RecordedEvent(kind, key, **event))


def _same(key: Key) -> Key:
    return key


def _cause(reason: str) -> Cause:
    return Cause(reason=reason, received=time.monotonic())
