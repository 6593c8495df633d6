"""Read-your-writes: a key is synced again when the stores show the writes of its last sync."""

import asyncio
import logging
from collections import OrderedDict
from typing import Any

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import Write, WriteResponse
from kcm_host.informer.cache_view import Stores
from kcm_host.informer.store import Entry, Store

log = logging.getLogger(__name__)

#: The event of a write arrives within milliseconds; a failed watch must not block a key for longer.
MAX_WAIT_SECONDS = 1.0
#: Expectations that nothing has waited for until then are removed.
EXPIRY_SECONDS = 10.0


class _Expectation(msgspec.Struct, frozen=True):
    """
    The state of one object that a store does not show yet.

    The object must be at `version`, or beyond it if `newer`. One that was `created` must exist;
    one that was `deleted` must not exist, or must have another uid.
    """

    store: Store[Any]
    name: Key
    version: str
    uid: str = ""
    newer: bool = False
    created: bool = False
    deleted: bool = False

    def is_visible(self) -> bool:
        """Return whether the store shows it; without the object, whether none is to appear."""
        entry = self.store.entry(self.name)
        if entry is None:
            return not self.created
        # A write that removes the last finalizer is answered with the version from before it, so
        # the version shows nothing (F-7).
        if self.deleted:
            return entry.uid != self.uid or self._was_written_since(entry)
        return is_at_least(entry.resource_version, self.version) and not (
            self.newer and entry.resource_version == self.version
        )

    def _was_written_since(self, entry: Entry[Any]) -> bool:
        """Return whether the object exists after the write, contrary to its response."""
        return bool(self.version) and (
            entry.resource_version != self.version
            and is_at_least(entry.resource_version, self.version)
        )


class _Expectations:
    """The expectations of the last sync of one key, and the loop time of the last of them."""

    __slots__ = ("at", "items")

    def __init__(self, at: float) -> None:
        self.at = at
        self.items: list[_Expectation] = []

    def is_over(self, now: float) -> bool:
        """Return whether no sync has to wait for them any more."""
        return now - self.at > EXPIRY_SECONDS or all(one.is_visible() for one in self.items)


class ReadYourWrites:
    """
    The writes of one controller that its stores do not show yet, by the keys of their syncs.

    A sync that reads a state from before its own last write would write the same again, and one
    that met a conflict would meet it again.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        #: In the order of their last writes. A plain dict would search its first entry beyond all
        #: that were removed before it.
        self._expectations: OrderedDict[Key, _Expectations] = OrderedDict()

    def tracker(self, key: Key) -> "WriteTracker":
        """Return the tracker of the writes of one sync of `key`."""
        return WriteTracker(self, key)

    async def wait_until_visible(self, key: Key) -> bool:
        """Wait, at most 1 s, until the stores show the writes of the last sync of `key`."""
        expectations = self._expectations.pop(key, None)
        if expectations is None:
            return True
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                for one in expectations.items:
                    # A future and no interval: events arrive within milliseconds, and this is in
                    # the way of the next sync of the key.
                    while not one.is_visible():
                        await one.store.wait_for_change(one.name)
        except TimeoutError:
            log.debug("own write not visible in time", extra={"kv": {"key": str(key)}})
            return False
        return True

    def stores_of(self, kind: Kind) -> list[Store[Any]]:
        """Return the stores that hold objects of a kind."""
        return self._stores.of_kind(kind)

    def expect(self, key: Key, expectation: _Expectation) -> None:
        """Make the next sync of `key` wait for this, unless the store shows it already."""
        now = asyncio.get_running_loop().time()
        self._expire(now)
        if expectation.is_visible():
            return
        expectations = self._expectations.pop(key, None) or _Expectations(now)
        expectations.at = now
        expectations.items.append(expectation)
        self._expectations[key] = expectations

    def _expire(self, now: float) -> None:
        """Remove keys that were not synced again: events come in about the order of writes."""
        while self._expectations:
            oldest = next(iter(self._expectations))
            # At the oldest one that is not over: an entry for every object that was never synced
            # again stayed for ever, 405 bytes each (F-14).
            if not self._expectations[oldest].is_over(now):
                return
            del self._expectations[oldest]

    def __len__(self) -> int:
        return len(self._expectations)


class WriteTracker:
    """Records what one sync has written, for the next sync of its key."""

    def __init__(self, read_your_writes: ReadYourWrites, key: Key) -> None:
        self._read_your_writes = read_your_writes
        self._key = key
        self._written: dict[tuple[Kind, Key], str] = {}

    def written(self, write: Write, response: WriteResponse) -> None:
        """Record a successful write: the stores will show the state in its response."""
        name = Key(response.name or write.key.name, write.key.namespace)
        if not response.deleted:
            self._written[write.kind, name] = response.resource_version
        for store in self._read_your_writes.stores_of(write.kind):
            self._read_your_writes.expect(self._key, _expectation(store, name, response))

    def conflicted(self, write: Write, version: str) -> None:
        """Record that the server has a newer version than this one, or no object any more."""
        for store in self._read_your_writes.stores_of(write.kind):
            expectation = _Expectation(store, write.key, version, newer=True)
            self._read_your_writes.expect(self._key, expectation)

    def newest_version(self, write: Write) -> str:
        """Return the newest known version of an object, of this sync's writes or the stores."""
        newest = self._written.get((write.kind, write.key), "")
        for store in self._read_your_writes.stores_of(write.kind):
            version = store.resource_version_of(write.key)
            if version is not None and (not newest or is_at_least(version, newest)):
                newest = version
        return newest


class NoWriteTracker(WriteTracker):
    """The tracker of writers without stores, which all of them share."""

    def written(self, write: Write, response: WriteResponse) -> None:
        """Record nothing."""


NO_TRACKER = NoWriteTracker(ReadYourWrites(Stores()), Key(""))


def _expectation(store: Store[Any], name: Key, response: WriteResponse) -> _Expectation:
    entry = store.entry(name)
    return _Expectation(
        store=store,
        name=name,
        version=response.resource_version,
        uid=response.uid or (entry.uid if entry is not None else ""),
        created=response.created,
        deleted=response.deleted,
    )


def is_at_least(version: str, other: str) -> bool:
    """
    Return whether a resource version is as new as another one.

    Versions of one resource are numbers that grow; where a server uses other forms, only equal
    versions count.
    """
    if version == other or not other:
        return True
    # Compared here alone, and only where both are numbers: everywhere else versions are opaque.
    return version.isdecimal() and other.isdecimal() and int(version) >= int(other)
