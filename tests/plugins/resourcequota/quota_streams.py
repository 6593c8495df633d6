"""The watch events of one kind in the quota cluster, sent line by line or held back."""

import asyncio
import json
from collections.abc import Iterable

from plugins.resourcequota.quota_objects import Manifest

from kcm_host.api import Kind
from kcm_host.informer import decoder
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host.informer.store import SLICE


class WatchStream:
    """The events of one kind; while it is held, events wait, as on a slow connection."""

    def __init__(self, kind: Kind) -> None:
        self.informer = SharedInformer(kind)
        self.waiting: list[tuple[str, Manifest]] = []
        self.is_held = False

    def send(self, sort: str, manifest: Manifest) -> None:
        self.waiting.append((sort, json.loads(json.dumps(manifest))))
        self.deliver()

    def deliver(self) -> None:
        while self.waiting and not self.is_held and self.informer.has_synced:
            sort, manifest = self.waiting.pop(0)
            line = _line(sort, manifest)
            self.informer.apply(sort, line, decoder.decode_event(line).object)

    def list(self, manifests: Iterable[Manifest]) -> None:
        self.waiting.clear()
        self.informer.init()
        lines = [_line("ADDED", manifest) for manifest in manifests]
        for line in lines:
            self.informer.init_apply("ADDED", line, decoder.decode_event(line).object)
        # What is more than one slice is delivered in further turns of an event loop.
        asyncio.run(self._finish_init(turns=len(lines) // SLICE + 2))

    async def _finish_init(self, *, turns: int) -> None:
        for _ in self.informer.init_done():
            pass
        for _ in range(turns):
            await asyncio.sleep(0)


def _line(sort: str, manifest: Manifest) -> bytes:
    return json.dumps({"type": sort, "object": manifest}).encode()
