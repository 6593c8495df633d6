"""Who is told of the changes of one store, and what each is still to be told."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from kcm_host.api.watches import Change
from kcm_host.store.store import SLICE


class Follower(Protocol):
    """Who hears of the changes of one store. Neither method may raise."""

    def changed(self, change: Change[Any]) -> None:
        """Take one change, after all stores of the stream have changed."""

    def synced(self) -> None:
        """Take note that all initial objects have been told."""


class Audience:
    """
    One follower, told everything once and in order.

    The initial objects are told in slices with the event loop heard in between; changes that
    come meanwhile wait for their turn. The first slice is told at once, so that the store holds
    exactly the initial objects when the first of them is told.
    """

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        #: Whether the telling of the initial objects has begun.
        self.welcomed = False
        self._telling: Iterator[None] | None = None
        self._later: deque[Change[Any]] = deque()

    def welcome(self, initial: Iterable[Change[Any]]) -> None:
        """Tell the initial objects and that these were all."""
        self.welcomed = True
        self._telling = self._all(initial)
        self._go_on()

    def tell(self, change: Change[Any]) -> None:
        """Tell a change, after all that came before it; before the welcome it is in there."""
        if self._telling is not None:
            self._later.append(change)
        elif self.welcomed:
            self.follower.changed(change)

    def leave(self) -> None:
        """Tell nothing more."""
        self._telling = None

    def _go_on(self) -> None:
        if self._telling is None:
            return
        told = sum(1 for _ in islice(self._telling, SLICE))
        if told == SLICE:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._telling = None

    def _all(self, initial: Iterable[Change[Any]]) -> Iterator[None]:
        for change in initial:
            self.follower.changed(change)
            yield
        self.follower.synced()
        while self._later:
            self.follower.changed(self._later.popleft())
            yield
