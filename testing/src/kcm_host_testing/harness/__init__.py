"""
A controller between objects in memory and recorded writes: tests of its logic without a server.

A test is a plain function: the harness has an event loop with a clock of its own, so that no real
time passes. Stores, work queue, writer and retries are those of the host.
"""

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from types import FunctionType
from typing import Any, TypeVar

from kcm_host.api import HostError, Key, Kind, Metric, Outcome
from kcm_host_testing.harness.controller import (
    ControllerInMemory,
    Recorded,
    RecordedEvent,
    SyncResult,
)
from kcm_host_testing.harness.discovery import ServedKinds
from kcm_host_testing.harness.errors import HarnessError, Refused
from kcm_host_testing.harness.informers import Informers
from kcm_host_testing.harness.instance import instance_of
from kcm_host_testing.harness.objects import Objects
from kcm_host_testing.harness.sender import (
    Answer,
    BeforeResponse,
    ErrorName,
    RecordedRead,
    RecordedWrite,
    RecordingSender,
)
from kcm_host_testing.virtual_time import BEGINNING, VirtualTimeLoop

__all__ = [
    "Answer",
    "ControllerHarness",
    "HarnessError",
    "RecordedEvent",
    "RecordedRead",
    "RecordedWrite",
    "SyncResult",
]

T = TypeVar("T")

#: The time of the harness when it is made.
START_TIME = datetime(2026, 1, 1, tzinfo=UTC)
#: How often a key may fail in a row before a test fails.
ATTEMPTS = 10


class ControllerHarness:
    """
    One controller with its objects, its queue and a record of what it does.

    `plugin` is an object of the plugin's class, or a function that takes the harness and returns
    one, for a controller that is given a clock. `name` is the controller's name in errors. `served`
    are the kinds that discovery shows; left out, every kind that the plugin asks for.

    Keys are written as `Key`, or as `name` or `namespace/name`. The lists are in order and may be
    cleared at any time. Exceptions of watch functions, after which the host would restart the
    controller, are raised by the method that has led to them; `HarnessError` for what the host
    would not notice, and for what needs a test on a server.
    """

    def __init__(
        self, plugin: object, *, name: str = "", served: Iterable[Kind] | None = None
    ) -> None:
        #: The writes that were sent, also those with an error response.
        self.writes: list[RecordedWrite] = []
        #: The requests for single objects, also those with an error response.
        self.reads: list[RecordedRead] = []
        #: The Events that syncs have recorded, before they are correlated.
        self.events: list[RecordedEvent] = []
        #: The results of all syncs.
        self.outcomes: list[SyncResult] = []
        #: The keys that the plugin has queued: not those of retries and of `Later`.
        self.enqueued: list[Key] = []
        self._recorded = Recorded(self.enqueued, self.outcomes, self.events)
        self._served = ServedKinds(served)
        self._loop = loop = VirtualTimeLoop()
        weakref.finalize(self, loop.close)
        # Nothing that the loop may hold refers to the harness: it closes the loop when it is freed.
        self._objects = Objects(lambda: _time_of(loop), self._on_change())
        self._sender = RecordingSender(
            self._objects, self._served.is_served, writes=self.writes, reads=self.reads
        )
        self._is_in_request = False
        self._controller: ControllerInMemory | None = None
        # A proxy, because the timers of the plugin must not keep the harness and its loop alive.
        self._plugin = plugin(weakref.proxy(self)) if isinstance(plugin, FunctionType) else plugin
        self._name = name or type(self._plugin).__name__

    @property
    def now(self) -> datetime:
        """The time of the harness, which passes in `run_until_idle` and `advance` only."""
        return _time_of(self._loop)

    def put(self, kind: Kind, manifest: Mapping[str, Any] | str) -> Key:
        """
        Create an object or replace it, its status included, and deliver the change.

        `manifest` is a mapping or YAML text. uid, resourceVersion, generation and
        creationTimestamp are added as far as they are not given.
        """
        self._require_served(kind)
        key = self._objects.put(kind, _mapping(manifest))
        self._deliver()
        return key

    def patch(self, kind: Kind, key: Key | str, patch: Mapping[str, Any]) -> None:
        """Change an object, or its status, by a merge patch, and deliver the change."""
        body = dict(patch)
        status = {"status": body.pop("status")} if "status" in body else {}
        with _as_lookup_error():
            if status:
                self._objects.merge(kind, _key(key), status, subresource="status")
            if body:
                self._objects.merge(kind, _key(key), body)
        self._deliver()

    def delete(self, kind: Kind, key: Key | str) -> None:
        """Delete an object, and deliver the change; one with finalizers is only marked."""
        with _as_lookup_error():
            self._objects.delete(kind, _key(key), {})
        self._deliver()

    def get(self, kind: Kind, key: Key | str) -> dict[str, Any]:
        """Return a copy of an object; raise `LookupError` if it does not exist."""
        with _as_lookup_error():
            return self._objects.get(kind, _key(key))

    def objects(self, kind: Kind) -> dict[str, dict[str, Any]]:
        """Return a copy of each object of a kind by its key as text, sorted."""
        found = self._objects.of(kind)
        return {str(key): deepcopy(found[key]) for key in sorted(found, key=str)}

    def serve(self, kind: Kind) -> None:
        """Serve a kind from now on."""
        self._served.add(kind)
        self._served_changed(kind)

    def unserve(self, kind: Kind) -> None:
        """Remove all objects of a kind, and serve it no longer."""
        for key in list(self._objects.of(kind)):
            self._objects.remove(kind, key)
        self._deliver()
        self._served.remove(kind)
        self._served_changed(kind)

    @contextmanager
    def disconnected(self) -> Iterator[None]:
        """
        Deliver no changes within this context, and list all objects again at its end.

        Meanwhile the stores are behind the objects, as after the loss of all watches.
        """
        self._informers.is_disconnected = True
        try:
            yield
        finally:
            self._informers.is_disconnected = False
        if self._controller is not None:
            self._run(self._controller.relist())

    def answer(
        self,
        error: ErrorName | HostError,
        *,
        verb: str = "",
        kind: Kind | None = None,
        key: Key | str | None = None,
        done: bool = False,
        times: int = 1,
    ) -> Answer:
        """
        Make the next matching requests fail with this error.

        `left` of the result is 0 once all of them have failed. With `done` each request is carried
        out before, as when only its response is lost. `verb` is that of `RecordedWrite`, or `get`.
        """
        wanted = None if key is None else _key(key)
        made = Answer(error=error, verb=verb, kind=kind, key=wanted, is_done=done, left=times)
        self._sender.answers.append(made)
        return made

    def before_response(
        self,
        function: Callable[[], object] = lambda: None,
        *,
        verb: str = "",
        kind: Kind | None = None,
        key: Key | str | None = None,
        times: int = 1,
    ) -> None:
        """
        Call a function after the next matching requests are carried out, before their responses.

        The changes that it makes, and that of the request itself, are delivered before the sync
        gets the response: it has raced with a watch, and `keys` was called meanwhile. The function
        may use `put`, `patch` and `delete`.
        """

        async def call() -> None:
            self._is_in_request = True
            try:
                function()
            finally:
                self._is_in_request = False
            if self._controller is not None:
                await self._controller.deliver()

        wanted = None if key is None else _key(key)
        self._sender.before_response.append(
            BeforeResponse(call=call, verb=verb, kind=kind, key=wanted, left=times)
        )

    def start(self) -> None:
        """
        Start the controller: initial lists through `keys`, then `kcm_synced`; nothing is synced.

        Every other method that needs a running controller starts it.
        """
        if self._controller is None:
            self._run(self._start())

    def restart(self, plugin: object) -> None:
        """Start again with a new object of the plugin's class, an empty queue and new stores."""
        self._plugin, self._controller = plugin, None
        self._sender.failure = None
        self.start()

    def sync(self, key: Key | str) -> Outcome:
        """Sync one key, whether or not it is queued; return its result or raise its exception."""
        result = self._run(self._started().sync(_key(key)))
        if isinstance(result, Exception):
            raise result
        return result

    def run_until_idle(self, *, attempts: int = ATTEMPTS) -> None:
        """
        Sync queued keys until there are none; time passes for retries and debounces.

        Keys that are due at a later time (`Later`, `EnqueueRequest`, timers) are left to `advance`.
        Raises `HarnessError` if a key fails so often in a row, or is queued again and again.
        """
        self._run(self._started().run_until_idle(attempts=attempts))

    def advance(self, time: timedelta, *, attempts: int = ATTEMPTS) -> None:
        """Pass this time, with the timers and keys that become due, and then run until idle."""
        controller = self._started()
        self._run(controller.advance(time.total_seconds(), attempts=attempts))
        self._run(controller.run_until_idle(attempts=attempts))

    def missed_wakeups(self, keys: Iterable[Key | str] | None = None) -> list[RecordedWrite]:
        """
        Run until idle, then sync each key, and return what these syncs have written.

        Each of these writes shows a change for which `keys` of a watch has not returned the key.
        `keys` are by default those that the resync of the host queues.
        """
        self.run_until_idle()
        controller, written = self._started(), []
        for key in controller.resync_keys() if keys is None else map(_key, keys):
            before = len(self.writes)
            self.sync(key)
            written += self.writes[before:]
            # What this write has queued is no missed wake-up.
            self.run_until_idle()
        return written

    def status(self) -> Mapping[str, Any]:
        """Return what `kcm_status` returns."""
        return self._started().status()

    def metrics(self) -> tuple[Metric, ...]:
        """Return what `kcm_metrics` returns."""
        return self._started().metrics()

    def _on_change(self) -> Callable[..., None]:
        self._informers = informers = Informers(self._served.is_served)
        return informers.record

    async def _start(self) -> None:
        self._informers.restart(self._objects)
        self._served.asked.clear()
        controller = ControllerInMemory(
            instance_of(self._plugin, self._name),
            informers=self._informers,
            sender=self._sender,
            discovery=self._served,
            recorded=self._recorded,
        )
        await controller.start()
        self._controller = controller

    def _started(self) -> ControllerInMemory:
        self.start()
        assert self._controller is not None
        return self._controller

    def _deliver(self) -> None:
        if self._controller is not None and not self._is_in_request:
            self._run(self._controller.deliver())

    def _require_served(self, kind: Kind) -> None:
        if not self._served.is_served(kind):
            raise HarnessError(f"'{kind}' is not served; call serve()")

    def _served_changed(self, kind: Kind) -> None:
        if self._controller is not None:
            self._run(self._controller.served_changed(kind))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(coroutine)
        coroutine.close()
        raise HarnessError(
            "the harness has an event loop of its own; write the test as 'def' without 'async'"
        )


def _time_of(loop: VirtualTimeLoop) -> datetime:
    return START_TIME + timedelta(seconds=loop.time() - BEGINNING)


def _key(key: Key | str) -> Key:
    if isinstance(key, Key):
        return key
    namespace, _, name = key.rpartition("/")
    return Key(name, namespace)


def _mapping(manifest: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if not isinstance(manifest, str):
        return manifest
    import yaml  # noqa: PLC0415 - most tests need no YAML

    found: Any = yaml.safe_load(manifest)
    return found if isinstance(found, Mapping) else {}


@contextmanager
def _as_lookup_error() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        if refused.status == 404:
            raise LookupError(str(refused)) from None
        raise HarnessError(str(refused)) from None
