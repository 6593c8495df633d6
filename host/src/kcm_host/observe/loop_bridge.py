"""Asking the host's event loop from the loop of another thread, with an end to the patience."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class NoReply(Exception):
    """The event loop did not answer in time, or never will again."""


class LoopBridge:
    """
    Runs plain functions on the host's event loop for tasks of another loop.

    `close` ends the wait of everybody who asks, now and later, so that a loop which is stopping
    never waits for somebody who waits for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, patience_seconds: float) -> None:
        self._loop = loop
        self._patience = patience_seconds
        self._open: set[Future[Any]] = set()
        self._closed = False

    @property
    def open(self) -> int:
        """How many questions wait for the loop."""
        return len(self._open)

    async def ask(self, question: Callable[[], T]) -> T:
        """
        Return what `question` returns when it is called on the host's loop.

        What it raises is raised here. Raises `NoReply` when the loop did not get to it in time;
        it is not called later then.
        """
        reply: Future[T] = Future()
        waited = asyncio.wrap_future(reply)
        self._open.add(reply)
        try:
            self._put(question, reply)
            await asyncio.wait({waited}, timeout=self._patience)
            if waited.cancelled():
                raise NoReply("the host is stopping")
            if not waited.done():
                raise NoReply(f"the event loop did not answer within {self._patience:g} s")
            return waited.result()
        finally:
            waited.cancel()
            reply.cancel()
            self._open.discard(reply)

    def close(self) -> None:
        """Give up every open question, and every later one at once."""
        self._closed = True
        for reply in list(self._open):
            reply.cancel()

    def _put(self, question: Callable[[], T], reply: Future[T]) -> None:
        if self._closed or self._loop.is_closed():
            raise NoReply("the host is stopping")
        try:
            self._loop.call_soon_threadsafe(_answer, question, reply)
        except RuntimeError:  # closed between the question and here
            raise NoReply("the host is stopping") from None


def _answer(question: Callable[[], T], reply: Future[T]) -> None:
    if not reply.set_running_or_notify_cancel():
        return
    try:
        reply.set_result(question())
    except Exception as error:  # noqa: BLE001 - belongs to whoever asked
        reply.set_exception(error)
