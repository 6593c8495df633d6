"""The writer of a sync: its only way to the API server."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kcm_host.api.errors import (
    ApiError,
    Conflict,
    HostError,
    NotFound,
    UndeclaredWrite,
    WriterClosed,
)
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.objects import raw_object
from kcm_host.api.sync import WriteRecord
from kcm_host.api.writes import (
    EVENTS,
    FinalizerMetadata,
    PatchType,
    Permission,
    Verb,
    Write,
    WriteResponse,
)
from kcm_host.client.errors import decode_body
from kcm_host.client.rest import check_key
from kcm_host.observe.tracing import NO_SPAN, NO_WRITE_LINKS, SyncSpan, WriteLinks
from kcm_host.reconcile import requests
from kcm_host.reconcile.event_recorder import RecordEvent, record_nothing
from kcm_host.reconcile.read_your_writes import NO_TRACKER, WriteTracker
from kcm_host.reconcile.requests import Operations, addition, removal
from kcm_host.reconcile.sender import Sender
from kcm_host.reconcile.sync_log import log_write

#: The name and the coroutine of each call.
Calls = list[tuple[str, Coroutine[Any, Any, Any]]]


class RecordsCalls(Protocol):
    """An object that keeps the coroutines of its methods."""

    calls: Calls


W = TypeVar("W", bound=RecordsCalls)
P = ParamSpec("P")
R = TypeVar("R")


def recorded(
    method: Callable[Concatenate[W, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[W, P], Coroutine[Any, Any, R]]:
    """Return an async method whose coroutines are kept in `calls`, so that none ends unseen."""

    @wraps(method)
    def call(self: W, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine = method(self, *args, **kwargs)
        self.calls.append((method.__name__, coroutine))
        return coroutine

    return call


def close_unawaited(calls: Calls) -> list[str]:
    """
    Close the coroutines that nothing has started, and return the names of their methods.

    Python has no warning for a closed one. That of a task is left to the task.
    """
    created = [one for one in calls if inspect.getcoroutinestate(one[1]) == inspect.CORO_CREATED]
    if not created:
        return []
    # A coroutine that was given to a task has not begun yet either, but will be awaited there.
    in_tasks = {task.get_coro() for task in asyncio.all_tasks()}
    names = []
    for name, coroutine in created:
        if coroutine not in in_tasks:
            coroutine.close()
            names.append(name)
    return names


def check_awaited(calls: Calls) -> None:
    """Raise `HostError` if a call was never awaited: nothing was sent for it."""
    for name in close_unawaited(calls):
        raise HostError(
            f"writer.{name}(...) was not awaited, so nothing was sent; "
            f"write 'await writer.{name}(...)'"
        )


#: Called with the name of the controller after each write that was sent.
OnWrite = Callable[[str, WriteRecord], None]
#: The status of a JSON patch of which a test has failed.
UNPROCESSABLE = 422


class SyncWriter:
    """The `Writer` of one sync: refuses undeclared writes and records all others."""

    def __init__(
        self,
        controller: str,
        sender: Sender,
        permissions: frozenset[Permission],
        *,
        span: SyncSpan = NO_SPAN,
        tracker: WriteTracker = NO_TRACKER,
        write_links: WriteLinks = NO_WRITE_LINKS,
        on_write: OnWrite = lambda _controller, _record: None,
        uid_read: Callable[[Kind, Key], str] = lambda _kind, _key: "",
        record_event: RecordEvent = record_nothing,
        is_resync_only: Callable[[], bool] = bool,
    ) -> None:
        self._controller = controller
        self._sender = sender
        self._permissions = permissions
        self._span = span
        self._tracker = tracker
        self._write_links = write_links
        self._on_write = on_write
        self._uid_read = uid_read
        self._record_event = record_event
        self._closed = ""
        self._is_resync_only = is_resync_only
        #: Whether the sync has read a state that no store shows yet: its event will wake the key.
        self._read_ahead = False
        self.records: list[WriteRecord] = []
        self.calls: Calls = []
        #: The first write that changed something although only the resync requested the key.
        self.missed: Write | None = None

    @property
    def is_answered(self) -> bool:
        """True once the server has responded to a write, so that the sync has waited for it."""
        return any(record.status for record in self.records)

    def close(self, reason: str) -> None:
        """Refuse all further requests; `reason` completes the sentence of the error."""
        self._closed = self._closed or reason

    @recorded
    async def patch(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        type: PatchType = "merge",  # noqa: A002 - see `Writer.patch`
        subresource: str = "",
    ) -> WriteResponse:
        """See `Writer.patch`."""
        write = requests.patch(kind, key, body, patch_type=type, subresource=subresource)
        return await self._write(write)

    @recorded
    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> WriteResponse:
        """See `Writer.apply`."""
        write = requests.apply(
            kind,
            key,
            body,
            field_manager=field_manager,
            force=force,
            subresource=subresource,
            # Without the uid, an object that was deleted meanwhile would be created again.
            uid="" if subresource else self._uid_read(kind, key),
        )
        return await self._write(write)

    @recorded
    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        """See `Writer.create`."""
        write = requests.create(kind, body, namespace)
        return _object(write, await self._write(write))

    @recorded
    async def update(
        self, kind: Kind, full_object: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """See `Writer.update`."""
        write = requests.update(kind, full_object, subresource)
        try:
            response = await self._write(write)
        except Conflict:
            self._tracker.conflicted(write, full_object["metadata"]["resourceVersion"])
            raise
        return _object(write, response)

    @recorded
    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = ""
    ) -> None:
        """See `Writer.delete`."""
        write = requests.delete(kind, key, uid=uid, resource_version=resource_version)
        await self._write(write)

    @recorded
    async def ensure_finalizer(
        self, kind: Kind, metadata: FinalizerMetadata, finalizer: str
    ) -> bool:
        """See `Writer.ensure_finalizer`."""
        return await self._patch_finalizers(kind, metadata, addition(metadata, finalizer))

    @recorded
    async def release_finalizer(
        self, kind: Kind, metadata: FinalizerMetadata, finalizer: str
    ) -> bool:
        """See `Writer.release_finalizer`."""
        try:
            return await self._patch_finalizers(kind, metadata, removal(metadata, finalizer))
        except NotFound:
            # The object is gone, and its finalizer with it.
            return True

    @recorded
    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """See `Writer.read`."""
        write = requests.read(kind, key)
        self._check(write)
        version = ""
        try:
            with self._span.write(write) as span:
                response = await self._sender.send(write)
                span.answered(response.status, attempts=response.attempts)
            version = response.resource_version
            return _object(write, response)
        except NotFound:
            return None
        finally:
            newest = self._tracker.newest_version(write)
            self._read_ahead = self._read_ahead or version != newest

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
        """See `Writer.event`."""
        for permission in EVENTS:
            self._check_declared(permission.kind, permission.verb)
        self._record_event(
            kind,
            key,
            reason=reason,
            message=message,
            warning=warning,
            component=component or self._controller,
        )

    async def _patch_finalizers(
        self, kind: Kind, metadata: FinalizerMetadata, operations: Operations
    ) -> bool:
        if not operations:
            return False
        key = Key(metadata.name, metadata.namespace)
        write = requests.patch(kind, key, operations, patch_type="json")
        # Taken before: the conflict means that the server has a newer one than this.
        version = self._tracker.newest_version(write)
        try:
            await self._write(write)
        except ApiError as error:
            if error.status != UNPROCESSABLE or error.causes:
                raise
            # A test has failed; a failed validation has causes.
            self._tracker.conflicted(write, version)
            raise Conflict(
                f"the finalizers of {kind} '{key}' were not changed: they are others than those "
                "that were read, or it is another object of this name",
                status=error.status,
                reason=error.reason,
                server_message=error.server_message,
            ) from error
        return True

    async def _write(self, write: Write) -> WriteResponse:
        self._check(write)
        is_resync_only = not self._read_ahead and self._is_resync_only()
        # Before the request: its event may arrive before the response.
        before = self._tracker.newest_version(write)
        with self._span.write(write) as span:
            response = await self._send(write)
            span.answered(response.status, attempts=response.attempts)
        self._tracker.written(write, response)
        self._write_links.remember(write, response, self._span.context)
        if is_resync_only and self.missed is None and _has_changed(response, before):
            self.missed = write
        return response

    def _check(self, write: Write) -> None:
        """Raise unless the write was declared and its key is that of one object."""
        self._check_declared(write.kind, write.verb, write.subresource)
        # `delete` of an empty name was a deletion of the whole collection (F-6).
        check_key(write.kind, write.key)

    def _check_declared(self, kind: Kind, verb: Verb, subresource: str = "") -> None:
        if self._closed:
            raise WriterClosed(
                f"{self._controller} tried to {verb} '{kind}' with a writer that is closed: "
                f"{self._closed}; write within kcm_sync, and await it there"
            )
        if Permission(kind=kind, verb=verb, subresource=subresource) in self._permissions:
            return
        resource = f"{kind}/{subresource}" if subresource else str(kind)
        argument = f", subresource='{subresource}'" if subresource else ""
        raise UndeclaredWrite(
            f"{self._controller} tried to {verb} '{resource}', which kcm_writes does not "
            f"declare; add Permission(kind, '{verb}'{argument}) for that kind to it"
        )

    async def _send(self, write: Write) -> WriteResponse:
        """Send a write and record it."""
        started = time.monotonic()
        status = 0
        try:
            response = await self._sender.send(write)
            status = response.status
        except ApiError as error:
            status = error.status
            raise
        finally:
            seconds = time.monotonic() - started
            # In `finally`: a write that was cut off is counted as well, as it was sent (F-16).
            record = WriteRecord(
                verb=write.verb,
                kind=str(write.kind),
                object=str(write.key),
                status=status,
                seconds=seconds,
            )
            self.records.append(record)
            log_write(self._controller, record, write.subresource)
            self._on_write(self._controller, record)
        return response


def _has_changed(response: WriteResponse, before: str) -> bool:
    return response.deleted or not before or response.resource_version != before


def _object(write: Write, response: WriteResponse) -> dict[str, Any]:
    return decode_body(raw_object, response.body, f"{write.verb} {write.kind} '{write.key}'")
