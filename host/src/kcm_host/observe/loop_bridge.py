"""Calls on the host's event loop from the loop of another thread, with a timeout."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopUnavailable(Exception):
    """The event loop did not make a call in time, or is stopping."""


class LoopBridge:
    """
    Calls plain functions on the host's event loop for tasks of another loop.

    `close` ends the wait of all callers, present and future ones, so that a loop which is stopping
    never waits for a thread that waits for the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, timeout_seconds: float) -> None:
        self._loop = loop
        self._timeout_seconds = timeout_seconds
        self._pending: set[Future[Any]] = set()
        self._closed = False

    @property
    def pending(self) -> int:
        """The number of calls that wait for the loop."""
        return len(self._pending)

    async def call(self, function: Callable[[], T]) -> T:
        """
        Call `function` on the host's loop and return its result.

        What it raises is raised here. Raises `LoopUnavailable` when the loop did not call it in
        time; it is not called later then.
        """
        future: Future[T] = Future()
        result = asyncio.wrap_future(future)
        self._pending.add(future)
        try:
            self._schedule(function, future)
            await asyncio.wait({result}, timeout=self._timeout_seconds)
            if result.cancelled():
                raise LoopUnavailable("the host is stopping")
            if not result.done():
                seconds = f"{self._timeout_seconds:g} s"
                raise LoopUnavailable(f"the event loop did not answer within {seconds}")
            return result.result()
        finally:
            result.cancel()
            future.cancel()
            self._pending.discard(future)

    def close(self) -> None:
        """Cancel all pending calls, and later ones at once."""
        self._closed = True
        for future in list(self._pending):
            future.cancel()

    def _schedule(self, function: Callable[[], T], future: Future[T]) -> None:
        if self._closed or self._loop.is_closed():
            raise LoopUnavailable("the host is stopping")
        try:
            self._loop.call_soon_threadsafe(_call, function, future)
        except RuntimeError:  # closed after the check
            raise LoopUnavailable("the host is stopping") from None


def _call(function: Callable[[], T], future: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - raised by `LoopBridge.call`
        future.set_exception(error)
