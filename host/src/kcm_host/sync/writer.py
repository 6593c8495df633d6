"""From what a sync wants to the request that says it."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from kcm_host.api.errors import ApiError, UndeclaredWrite
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.records import WriteRecord
from kcm_host.api.writes import Permission, Receipt, Write
from kcm_host.sync.sender import Sender

if TYPE_CHECKING:
    from kcm_host.observe.spans import SyncSpan

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class SyncWriter:
    """The `Writer` of one sync: refuses what is not declared and keeps a record of every write."""

    def __init__(
        self,
        controller: str,
        sender: Sender,
        permissions: frozenset[Permission],
        span: "SyncSpan | None" = None,
        on_written: Callable[[Write, Receipt], None] | None = None,
    ) -> None:
        self._controller = controller
        self._sender = sender
        self._permissions = permissions
        self._span = span
        self._on_written = on_written
        self.records: list[WriteRecord] = []

    async def patch(
        self, kind: Kind, key: Key, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Receipt:
        """See `Writer.patch`."""
        write = Write(kind, key, "patch", orjson.dumps(body), STRATEGIC_MERGE, subresource)
        return await self._write(write)

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
    ) -> Receipt:
        """See `Writer.apply`."""
        name = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        identity = {"apiVersion": kind.api_version, "kind": kind.name}
        metadata = {**body.get("metadata", {}), **name}
        whole = {**identity, **body, "metadata": metadata}
        query = (("fieldManager", field_manager), *((("force", "true"),) if force else ()))
        write = Write(kind, key, "patch", orjson.dumps(whole), APPLY, query=query)
        return await self._write(write)

    async def _write(self, write: Write) -> Receipt:
        permission = Permission(write.kind, write.verb, write.subresource)
        if permission not in self._permissions:
            what = f"{write.kind}/{write.subresource}" if write.subresource else str(write.kind)
            of = f", subresource='{write.subresource}'" if write.subresource else ""
            raise UndeclaredWrite(
                f"{self._controller} tried to {write.verb} '{what}', which kcm_writes does not "
                f"declare; add Permission(kind, '{write.verb}'{of}) for that kind to it"
            )
        if self._span is None:
            receipt = await self._recorded(write)
        else:
            with self._span.write(write) as sent:
                receipt = await self._recorded(write)
                sent.answered(200, attempts=receipt.attempts)
        if self._on_written is not None:
            self._on_written(write, receipt)
        return receipt

    async def _recorded(self, write: Write) -> Receipt:
        started = time.monotonic()
        status = 0
        try:
            receipt = await self._sender.send(write)
            status = 200
        except ApiError as error:
            status = error.status
            raise
        finally:
            seconds = time.monotonic() - started
            self.records.append(
                WriteRecord(write.verb, str(write.kind), str(write.key), status, seconds)
            )
        return receipt
