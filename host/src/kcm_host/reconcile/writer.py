"""The one way from a sync to the API server."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcm_host.api.errors import ApiError, Conflict, NotFound, UndeclaredWrite, WriterClosed
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.raw import raw_object
from kcm_host.api.records import WriteRecord
from kcm_host.api.writes import EVENT, Permission, Receipt, Write
from kcm_host.client.errors import decode_body
from kcm_host.client.paths import check_key
from kcm_host.reconcile import requests
from kcm_host.reconcile.read_your_writes import SyncWrites
from kcm_host.reconcile.sender import Sender

if TYPE_CHECKING:
    from kcm_host.observe.tracing import SyncSpan

#: Takes what an Event tells: kind, key, reason, message, warning, component.
TellUsers = Callable[[Kind, Key, str, str, bool, str], None]
#: Hears of each write that was sent, by the name of its controller.
OnWrite = Callable[[str, WriteRecord], None]
_Send = Callable[[Write], Awaitable[Receipt]]


class SyncWriter:
    """The `Writer` of one sync: refuses what is not declared and keeps a record of every write."""

    def __init__(
        self,
        controller: str,
        sender: Sender,
        permissions: frozenset[Permission],
        span: "SyncSpan | None" = None,
        *,
        own_writes: SyncWrites | None = None,
        on_written: Callable[[Write, Receipt], None] | None = None,
        on_write: OnWrite = lambda _controller, _record: None,
        uid_read: Callable[[Kind, Key], str] = lambda _kind, _key: "",
        tell_users: TellUsers | None = None,
        is_unasked: Callable[[], bool] = bool,
    ) -> None:
        self._controller = controller
        self._sender = sender
        self._permissions = permissions
        self._span = span
        self._own_writes = own_writes
        self._on_written = on_written
        self._on_write = on_write
        self._uid_read = uid_read
        self._tell_users = tell_users
        self._closed = ""
        self._is_unasked = is_unasked
        #: Whether the sync has seen what no store shows yet: its wake-up is on its way then.
        self._ahead = False
        self.records: list[WriteRecord] = []
        #: The first write that changed something though only the slow sweep had asked for the key.
        self.missed: Write | None = None

    def close(self, why: str) -> None:
        """Send nothing any more; `why` completes the sentence that an author reads."""
        self._closed = self._closed or why

    async def patch(
        self, kind: Kind, key: Key, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Receipt:
        """See `Writer.patch`."""
        return await self._write(requests.patch(kind, key, body, subresource))

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> Receipt:
        """See `Writer.apply`."""
        write = requests.apply(
            kind,
            key,
            body,
            field_manager=field_manager,
            force=force,
            subresource=subresource,
            # A subresource of what is gone is an error anyway; the object itself would be created.
            uid="" if subresource else self._uid_read(kind, key),
        )
        return await self._write(write)

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        """See `Writer.create`."""
        write = requests.create(kind, body, namespace)
        return _object(write, await self._write(write))

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """See `Writer.update`."""
        write = requests.update(kind, whole, subresource)
        try:
            receipt = await self._write(write)
        except Conflict:
            if self._own_writes is not None:
                self._own_writes.outdated(write, whole["metadata"]["resourceVersion"])
            raise
        return _object(write, receipt)

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """See `Writer.delete`."""
        write = requests.delete(kind, key, uid=uid, version=version)
        await self._write(write)

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """See `Writer.read`."""
        write = requests.read(kind, key)
        self._check(write)
        version = ""
        try:
            receipt = await self._spanned(write, self._sender.send)
            version = receipt.version
            return _object(write, receipt)
        except NotFound:
            return None
        finally:
            self._ahead = self._ahead or version != self._newest(write)

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
        for verb in ("create", "patch"):
            self._check_declared(EVENT, verb)
        if self._tell_users is not None:
            who = component or self._controller
            self._tell_users(kind, key, reason, message, warning, who)

    async def _write(self, write: Write) -> Receipt:
        self._check(write)
        is_unasked = not self._ahead and self._is_unasked()
        before = self._newest(write)
        receipt = await self._spanned(write, self._recorded)
        if self._own_writes is not None:
            self._own_writes.remember(write, receipt)
        if self._on_written is not None:
            self._on_written(write, receipt)
        if is_unasked and self.missed is None and self._changed(receipt, before):
            self.missed = write
        return receipt

    @staticmethod
    def _changed(receipt: Receipt, before: str) -> bool:
        return receipt.deleted or not before or receipt.version != before

    def _newest(self, write: Write) -> str:
        """Give the newest version known of the object; empty where none is."""
        return self._own_writes.newest(write) if self._own_writes is not None else ""

    def _check(self, write: Write) -> None:
        """Raise unless the write goes to one object and was declared; called before any request."""
        self._check_declared(write.kind, write.verb, write.subresource)
        check_key(write.kind, write.key)

    def _check_declared(self, kind: Kind, verb: str, subresource: str = "") -> None:
        if self._closed:
            raise WriterClosed(
                f"{self._controller} tried to {verb} '{kind}' with a writer that is closed: "
                f"{self._closed}; write within kcm_sync, and await it there"
            )
        if Permission(kind, verb, subresource) in self._permissions:
            return
        what = f"{kind}/{subresource}" if subresource else str(kind)
        of = f", subresource='{subresource}'" if subresource else ""
        raise UndeclaredWrite(
            f"{self._controller} tried to {verb} '{what}', which kcm_writes does not "
            f"declare; add Permission(kind, '{verb}'{of}) for that kind to it"
        )

    async def _spanned(self, write: Write, send: _Send) -> Receipt:
        if self._span is None:
            return await send(write)
        with self._span.write(write) as sent:
            receipt = await send(write)
            sent.answered(receipt.status, attempts=receipt.attempts)
        return receipt

    async def _recorded(self, write: Write) -> Receipt:
        started = time.monotonic()
        status = 0
        try:
            receipt = await self._sender.send(write)
            status = receipt.status
        except ApiError as error:
            status = error.status
            raise
        finally:
            seconds = time.monotonic() - started
            record = WriteRecord(write.verb, str(write.kind), str(write.key), status, seconds)
            self.records.append(record)
            self._on_write(self._controller, record)
        return receipt


def _object(write: Write, receipt: Receipt) -> dict[str, Any]:
    return decode_body(raw_object, receipt.body, f"{write.verb} {write.kind} '{write.key}'")
