"""Holds a key until the stores show what its own last sync did."""

import asyncio
import logging
from typing import Any

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Receipt, Write
from kcm_host.store.store import Store
from kcm_host.store.view import Stores

log = logging.getLogger(__name__)

#: An echo arrives within milliseconds; a stream that is broken for longer holds nothing up.
LIMIT_SECONDS = 1.0


class _Awaited(msgspec.Struct, frozen=True):
    """An object that a store has not shown yet as it must be; `beyond`: only newer will do."""

    store: Store[Any]
    name: Key
    version: str
    beyond: bool

    def shown(self) -> bool:
        """Whether the store has it, or has it no longer."""
        known = self.store.version_of(self.name)
        if known is None:
            return True
        return reaches(known, self.version) and not (self.beyond and known == self.version)


class OwnWrites:
    """
    What the syncs of one controller did that its stores have not shown yet, by their keys.

    A sync that reads from before its own last write would write the same once more, and one that
    met a conflict would meet it again.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._unseen: dict[Key, list[_Awaited]] = {}

    def of(self, key: Key) -> "KeyWrites":
        """Give what the sync of `key` that is about to begin tells about its writes."""
        return KeyWrites(self._stores, self._unseen, key)

    async def seen(self, key: Key) -> bool:
        """Return True when the stores show what the last sync of `key` did, False after 1 s."""
        unseen = self._unseen.pop(key, None)
        if unseen is None:
            return True
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                for one in unseen:
                    while not one.shown():
                        await one.store.next_change(one.name)
        except TimeoutError:
            log.debug("own write not seen in time", extra={"kv": {"key": str(key)}})
            return False
        return True


class KeyWrites:
    """Takes note of what one sync does."""

    def __init__(self, stores: Stores, unseen: dict[Key, list[_Awaited]], key: Key) -> None:
        self._stores = stores
        self._unseen = unseen
        self._key = key
        self._written: dict[tuple[Kind, Key], str] = {}

    def remember(self, write: Write, receipt: Receipt) -> None:
        """Note a write that arrived: the object has this version since."""
        self._written[write.kind, write.key] = receipt.version
        self._await(write, receipt.version, beyond=False)

    def outdated(self, write: Write, version: str) -> None:
        """Note that the server has something newer than this version, or nothing any more."""
        self._await(write, version, beyond=True)

    def newest(self, write: Write) -> str:
        """Give the newest version known of an object, from this sync's writes or the stores."""
        newest = self._written.get((write.kind, write.key), "")
        for store in self._following(write.kind):
            known = store.version_of(write.key)
            if known is not None and (not newest or reaches(known, newest)):
                newest = known
        return newest

    def _following(self, kind: Kind) -> list[Store[Any]]:
        return [store for (its, _), store in self._stores.items() if its == kind]

    def _await(self, write: Write, version: str, *, beyond: bool) -> None:
        for store in self._following(write.kind):
            awaited = _Awaited(store, write.key, version, beyond)
            if not awaited.shown():
                self._unseen.setdefault(self._key, []).append(awaited)


def reaches(known: str, written: str) -> bool:
    """
    Whether a stored version is as new as a written one.

    Versions of one resource are numbers that grow; where a server uses others, only the very
    version written counts.
    """
    if known == written or not written:
        return True
    return known.isdecimal() and written.isdecimal() and int(known) >= int(written)
