"""Holds a key until the stores show what its own last sync wrote."""

import asyncio
import logging
from typing import Any

from kcm_host.api.kinds import Key
from kcm_host.api.writes import Receipt, Write
from kcm_host.store.store import Store
from kcm_host.store.view import Stores

log = logging.getLogger(__name__)

#: An echo arrives within milliseconds; a stream that is broken for longer holds nothing up.
LIMIT_SECONDS = 1.0


class OwnWrites:
    """
    The writes of one controller that its stores have not shown yet, by the key that made them.

    A sync that reads from before its own last write would write the same once more.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._unseen: dict[Key, list[tuple[Store[Any], Key, str]]] = {}

    def remember(self, key: Key, write: Write, receipt: Receipt) -> None:
        """Note that the sync of `key` wrote an object, which has this version since."""
        for (kind, _), store in self._stores.items():
            known = store.version_of(write.key) if kind == write.kind else None
            if known is not None and not reaches(known, receipt.version):
                self._unseen.setdefault(key, []).append((store, write.key, receipt.version))

    async def seen(self, key: Key) -> None:
        """Return when the stores show what the last sync of `key` wrote, or after 1 s."""
        unseen = self._unseen.pop(key, None)
        if unseen is None:
            return
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                for store, name, version in unseen:
                    while (known := store.version_of(name)) and not reaches(known, version):
                        await store.next_change(name)
        except TimeoutError:
            log.debug("own write not seen in time", extra={"kv": {"key": str(key)}})


def reaches(known: str, written: str) -> bool:
    """
    Whether a stored version is as new as a written one.

    Versions of one resource are numbers that grow; where a server uses others, only the very
    version written counts.
    """
    if known == written or not written:
        return True
    return known.isdecimal() and written.isdecimal() and int(known) >= int(written)
