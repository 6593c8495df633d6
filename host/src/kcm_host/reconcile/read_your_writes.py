"""Holds a key until the stores show what its own last sync did."""

import asyncio
import logging
from typing import Any

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Receipt, Write
from kcm_host.informer.cache_view import Stores
from kcm_host.informer.store import Entry, Store

log = logging.getLogger(__name__)

#: An echo arrives within milliseconds; a stream that is broken for longer holds nothing up.
LIMIT_SECONDS = 1.0
#: What nobody has waited for until then is forgotten.
KEPT_SECONDS = 10.0


class _Awaited(msgspec.Struct, frozen=True):
    """
    An object that a store has not shown yet as it must be.

    At this version, only newer ones where it is `beyond`; a `created` one must be there, one
    that is `gone` must be there no more, or be another one.
    """

    store: Store[Any]
    name: Key
    version: str
    uid: str = ""
    beyond: bool = False
    created: bool = False
    gone: bool = False

    def shown(self) -> bool:
        """Whether the store has it so; where it lacks the object, whether nothing is to come."""
        known = self.store.entry(self.name)
        if known is None:
            return not self.created
        if self.gone:
            return known.uid != self.uid or self._is_newer(known)
        return reaches(known.resource_version, self.version) and not (
            self.beyond and known.resource_version == self.version
        )

    def _is_newer(self, known: Entry[Any]) -> bool:
        """Whether the object was still there after the write, against what its answer said."""
        return bool(self.version) and (
            known.resource_version != self.version and reaches(known.resource_version, self.version)
        )


class _Unseen:
    """What the last sync of one key did, and when it did the last of it."""

    __slots__ = ("at", "awaited")

    def __init__(self, at: float) -> None:
        self.at = at
        self.awaited: list[_Awaited] = []

    def is_over(self, now: float) -> bool:
        """Whether nobody has to wait for it any more."""
        return now - self.at > KEPT_SECONDS or all(one.shown() for one in self.awaited)


class ReadYourWrites:
    """
    What the syncs of one controller did that its stores have not shown yet, by their keys.

    A sync that reads from before its own last write would write the same once more, and one that
    met a conflict would meet it again.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        #: In the order of their last writes.
        self._unseen: dict[Key, _Unseen] = {}

    def of(self, key: Key) -> "SyncWrites":
        """Give what the sync of `key` that is about to begin tells about its writes."""
        return SyncWrites(self, key)

    async def seen(self, key: Key) -> bool:
        """Wait until the stores show what the last sync of `key` did, 1 s at most; whether so."""
        unseen = self._unseen.pop(key, None)
        if unseen is None:
            return True
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                for one in unseen.awaited:
                    while not one.shown():
                        await one.store.wait_for_change(one.name)
        except TimeoutError:
            log.debug("own write not seen in time", extra={"kv": {"key": str(key)}})
            return False
        return True

    def following(self, kind: Kind) -> list[Store[Any]]:
        """Give the stores that hold objects of a kind."""
        return [store for (its, _), store in self._stores.items() if its == kind]

    def expect(self, key: Key, awaited: _Awaited) -> None:
        """Let the next sync of `key` wait for this, if the store does not show it yet."""
        now = asyncio.get_running_loop().time()
        self._forget_old(now)
        if awaited.shown():
            return
        unseen = self._unseen.pop(key, None) or _Unseen(now)
        unseen.at = now
        unseen.awaited.append(awaited)
        self._unseen[key] = unseen

    def _forget_old(self, now: float) -> None:
        """Forget keys that were not synced again: echoes come in about the order of writes."""
        while self._unseen:
            oldest = next(iter(self._unseen))
            if not self._unseen[oldest].is_over(now):
                return
            del self._unseen[oldest]

    def __len__(self) -> int:
        return len(self._unseen)


class SyncWrites:
    """Takes note of what one sync does."""

    def __init__(self, own: ReadYourWrites, key: Key) -> None:
        self._own = own
        self._key = key
        self._written: dict[tuple[Kind, Key], str] = {}

    def remember(self, write: Write, receipt: Receipt) -> None:
        """Note a write that arrived: what its answer says of the object will be shown."""
        name = Key(receipt.name or write.key.name, write.key.namespace)
        if not receipt.deleted:
            self._written[write.kind, name] = receipt.version
        for store in self._own.following(write.kind):
            self._own.expect(self._key, _awaited(store, name, receipt))

    def outdated(self, write: Write, version: str) -> None:
        """Note that the server has something newer than this version, or nothing any more."""
        for store in self._own.following(write.kind):
            self._own.expect(self._key, _Awaited(store, write.key, version, beyond=True))

    def newest(self, write: Write) -> str:
        """Give the newest version known of an object, from this sync's writes or the stores."""
        newest = self._written.get((write.kind, write.key), "")
        for store in self._own.following(write.kind):
            known = store.resource_version_of(write.key)
            if known is not None and (not newest or reaches(known, newest)):
                newest = known
        return newest


def _awaited(store: Store[Any], name: Key, receipt: Receipt) -> _Awaited:
    known = store.entry(name)
    uid = receipt.uid or (known.uid if known is not None else "")
    return _Awaited(
        store,
        name,
        receipt.version,
        uid,
        created=receipt.created,
        gone=receipt.deleted,
    )


def reaches(known: str, written: str) -> bool:
    """
    Whether a stored version is as new as a written one.

    Versions of one resource are numbers that grow; where a server uses others, only the very
    version written counts.
    """
    if known == written or not written:
        return True
    return known.isdecimal() and written.isdecimal() and int(known) >= int(written)
