"""Calls the synchronous functions of a plugin instance and queues what they want."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES, HostError
from kcm_host.api.kinds import Key
from kcm_host.api.records import Cause
from kcm_host.api.views import View
from kcm_host.api.wakes import Lane, Rewatch, Wake, Wanted
from kcm_host.workqueue.queue import WorkQueue


class Functions:
    """
    The watch functions and timers of one start, on their way to its queue.

    The first exception of theirs is the `failure` of that start, and none is called afterwards:
    a change has been lost to the plugin's memory, so only a new instance can be trusted.
    """

    def __init__(self, queue: WorkQueue, view: View) -> None:
        self.view = view
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: What raised: the beginning of a sentence.
        self.culprit = ""
        #: Set when a function wants other watches.
        self.rewatch = asyncio.Event()
        self._queue = queue

    def call(
        self,
        function: Callable[..., Iterable[Wanted]],
        *told: Any,
        cause: Callable[[], Cause],
        rest_seconds: float = 0.0,
        culprit: str = "a watch function",
    ) -> None:
        """
        Call a function with what it is told and the view, and queue what it gives.

        Keys wait until they have been left alone for `rest_seconds`, unless they say when.
        """
        if self.failure.done():
            return
        try:
            wanted = list(function(*told, self.view))
            if wanted:
                self._put(wanted, cause(), rest_seconds)
        except PLUGIN_FAILURES as error:
            self.fail(error, culprit=culprit)

    def fail(self, error: BaseException, *, culprit: str = "a watch function") -> None:
        """End the start these belong to."""
        if self.failure.done():
            return
        if not isinstance(error, Exception):
            # As itself it would end the event loop when somebody awaits it.
            error = HostError(f"it raised {type(error).__name__}: {error}")
        self.culprit = culprit
        self.failure.set_exception(error)
        self.failure.exception()  # seen: whoever awaits it gets it, and nobody need

    def _put(self, wanted: list[Wanted], cause: Cause, rest_seconds: float) -> None:
        for one in wanted:
            if isinstance(one, Key):
                self._add(one, cause, Lane.NORMAL, rest_seconds=rest_seconds)
            elif isinstance(one, Wake):
                after = one.after.total_seconds()
                self._add(one.key, cause, one.lane, after=after, rest_seconds=rest_seconds)
            elif isinstance(one, Rewatch):
                self.rewatch.set()
            else:
                raise TypeError(f"{one!r} is wanted; give a Key, a Wake or Rewatch()")

    def _add(
        self, key: Key, cause: Cause, lane: Lane, *, after: float = 0.0, rest_seconds: float
    ) -> None:
        if rest_seconds and not after:
            self._queue.rest(key, cause, seconds=rest_seconds, lane=lane)
        else:
            self._queue.add(key, cause, after=after, lane=lane)
