"""
Claims that this controller created and its store may not show yet (RC-15, D-2).

A mutation cache (IQ-91 to IQ-97) that is fed with the creations and with all watch events. So
whatever it holds is newer than the store, and a deleted claim is forgotten at once.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import timedelta

import msgspec

from kcm_host.api import Key
from kcm_host_resourceclaim.models.claim import Claim
from kcm_host_resourceclaim.ownership import owner_values

CAPACITY = 1000
LIFETIME = timedelta(hours=1)


class _Created(msgspec.Struct, frozen=True):
    claim: Claim
    version: int
    expires: float


class _Tombstone(msgspec.Struct, frozen=True):
    """A claim that was deleted: its answer to the creation may come after that."""

    uid: str
    version: int
    expires: float


class CreatedClaims:
    """The created claims by key and by owner; what was used longest ago goes first."""

    def __init__(
        self,
        *,
        capacity: int = CAPACITY,
        lifetime: timedelta = LIFETIME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._capacity = capacity
        self._lifetime_seconds = lifetime.total_seconds()
        self._clock = clock
        self._claims: OrderedDict[Key, _Created] = OrderedDict()
        self._tombstones: OrderedDict[Key, _Tombstone] = OrderedDict()
        self._owned: dict[str, set[Key]] = {}

    def add(self, key: Key, claim: Claim, version: str) -> None:
        """Take the server's answer to a creation, unless that claim is known to be gone (IQ-96)."""
        number, now = _number(version), self._clock()
        tombstone = self._tombstones.get(key)
        if tombstone is not None and tombstone.expires > now:
            if claim.uid == tombstone.uid or number <= tombstone.version:
                return
            del self._tombstones[key]
        known = self._claims.get(key)
        if known is not None and known.version > number:
            return
        self._drop(key)
        self._claims[key] = _Created(claim, number, now + self._lifetime_seconds)
        for value in owner_values(key, claim):
            self._owned.setdefault(value, set()).add(key)
        if len(self._claims) > self._capacity:
            self._drop(next(iter(self._claims)))

    def seen(self, key: Key, version: str) -> None:
        """Take note that the store has this version: what is not newer is needed no more."""
        known = self._claims.get(key)
        if known is not None and known.version <= _number(version):
            self._drop(key)

    def gone(self, key: Key, uid: str, version: str) -> None:
        """Take note of a deletion; another claim that got its name since then stays (IQ-95)."""
        number = _number(version)
        known = self._claims.get(key)
        if known is not None:
            if known.claim.uid != uid and known.version > number:
                return
            self._drop(key)
        self._tombstones.pop(key, None)
        self._tombstones[key] = _Tombstone(uid, number, self._clock() + self._lifetime_seconds)
        if len(self._tombstones) > self._capacity:
            self._tombstones.popitem(last=False)

    def get(self, key: Key) -> Claim | None:
        """Give a created claim that the store does not show yet."""
        known = self._claims.get(key)
        if known is None:
            return None
        if known.expires <= self._clock():
            self._drop(key)
            return None
        self._claims.move_to_end(key)
        return known.claim

    def owned_by(self, value: str) -> Iterator[tuple[Key, Claim]]:
        """Give those with this value of the claims' index by owner, in no order."""
        for key in tuple(self._owned.get(value, ())):
            claim = self.get(key)
            if claim is not None:
                yield key, claim

    def __len__(self) -> int:
        return len(self._claims)

    def _drop(self, key: Key) -> None:
        known = self._claims.pop(key, None)
        if known is None:
            return
        for value in owner_values(key, known.claim):
            keys = self._owned[value]
            keys.discard(key)
            if not keys:
                del self._owned[value]


def _number(version: str) -> int:
    """Versions of one resource are numbers that grow; no version counts as 0 (IQ-91)."""
    return int(version) if version.isdecimal() else 0
