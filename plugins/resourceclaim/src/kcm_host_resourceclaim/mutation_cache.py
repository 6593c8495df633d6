"""
Claims that this controller created and that the informer's cache may not have yet (RC-15, D-2).

The mutation cache (IQ-91 to IQ-97) receives the created claims and all watch events. So each claim
in it is newer than the informer's cache, and a deleted claim is removed at once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec

from kcm_host.api import Key
from kcm_host_resourceclaim.models.claim import Claim, owner_values

CAPACITY = 1000
TTL = timedelta(hours=1)


class _Created(msgspec.Struct, frozen=True):
    claim: Claim
    resource_version: int
    expires: float


class _Tombstone(msgspec.Struct, frozen=True):
    """A deleted claim: the response to its creation may arrive after the deletion."""

    uid: str
    resource_version: int
    expires: float


class MutationCache:
    """The created claims by key and by owner; the least recently used one is evicted first."""

    def __init__(
        self,
        *,
        capacity: int = CAPACITY,
        ttl: timedelta = TTL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._capacity = capacity
        self._ttl_seconds = ttl.total_seconds()
        self._clock = clock
        self._claims: OrderedDict[Key, _Created] = OrderedDict()
        self._tombstones: OrderedDict[Key, _Tombstone] = OrderedDict()
        self._by_owner: dict[str, set[Key]] = {}

    def add(self, key: Key, claim: Claim, resource_version: str) -> None:
        """Add the response to a creation, unless the claim was deleted since then (IQ-96)."""
        version, now = _number(resource_version), self._clock()
        tombstone = self._tombstones.get(key)
        if tombstone is not None and tombstone.expires > now:
            if claim.uid == tombstone.uid or version <= tombstone.resource_version:
                return
            del self._tombstones[key]
        cached = self._claims.get(key)
        if cached is not None and cached.resource_version > version:
            return
        self._remove(key)
        self._claims[key] = _Created(claim, version, now + self._ttl_seconds)
        for value in owner_values(key, claim):
            self._by_owner.setdefault(value, set()).add(key)
        if len(self._claims) > self._capacity:
            self._remove(next(iter(self._claims)))

    def on_update(self, key: Key, resource_version: str) -> None:
        """Remove a claim of which the informer's cache has this version or a newer one."""
        cached = self._claims.get(key)
        if cached is not None and cached.resource_version <= _number(resource_version):
            self._remove(key)

    def on_delete(self, key: Key, uid: str, resource_version: str) -> None:
        """Remove a deleted claim; another claim that got its name since then stays (IQ-95)."""
        version = _number(resource_version)
        cached = self._claims.get(key)
        if cached is not None:
            if cached.claim.uid != uid and cached.resource_version > version:
                return
            self._remove(key)
        self._tombstones.pop(key, None)
        self._tombstones[key] = _Tombstone(uid, version, self._clock() + self._ttl_seconds)
        if len(self._tombstones) > self._capacity:
            self._tombstones.popitem(last=False)

    def get(self, key: Key) -> Claim | None:
        """Return a created claim that the informer's cache does not have yet."""
        cached = self._claims.get(key)
        if cached is None:
            return None
        if cached.expires <= self._clock():
            self._remove(key)
            return None
        self._claims.move_to_end(key)
        return cached.claim

    def by_owner(self, value: str) -> Iterator[tuple[Key, Claim]]:
        """Return the claims with this value in the index by owner, in no order."""
        for key in tuple(self._by_owner.get(value, ())):
            claim = self.get(key)
            if claim is not None:
                yield key, claim

    def __len__(self) -> int:
        return len(self._claims)

    def _remove(self, key: Key) -> None:
        cached = self._claims.pop(key, None)
        if cached is None:
            return
        for value in owner_values(key, cached.claim):
            keys = self._by_owner[value]
            keys.discard(key)
            if not keys:
                del self._by_owner[value]


def _number(resource_version: str) -> int:
    """Return a resource version as the number by which versions are ordered; 0 for none (IQ-91)."""
    return int(resource_version) if resource_version.isdecimal() else 0
