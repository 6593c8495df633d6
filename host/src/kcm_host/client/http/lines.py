"""The lines of a response body, handed to a function as they arrive."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

#: Far more than any object of an API server: etcd refuses more than 1.5 MiB by default, and JSON
#: multiplies that by six at worst.
MAX_LINE_BYTES = 64 << 20

#: Returns whether it wants no more lines.
HandleLine = Callable[[bytes], bool]


class LineTooLong(Exception):
    """A line has no end after `MAX_LINE_BYTES`."""


class LineSplitter:
    """Splits what arrives into lines. Each byte is searched and copied once."""

    def __init__(self) -> None:
        self._incomplete = bytearray()

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk; raise `LineTooLong`."""
        # To search the joined text again for each chunk took 41 s of the loop for a line of 200 MiB
        # (F-25).
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._incomplete and lines:
            self._incomplete += lines[0]
            lines[0] = bytes(self._incomplete)
            self._incomplete = bytearray()
        if rest:
            self._incomplete += rest
            # Without a bound, a server or a proxy that sends no line end fills the memory (F-25).
            if len(self._incomplete) > MAX_LINE_BYTES:
                raise LineTooLong
        return lines


class Source(Protocol):
    """What the lines come from."""

    def pause(self) -> None:
        """Stop receiving."""

    def resume(self) -> None:
        """Receive again."""

    def abort(self) -> None:
        """End the connection."""


class LineStream:
    """
    The lines of one response body.

    A body that is cut or falls silent ends them like a normal end (IQ-117); an incomplete line is
    dropped, because the next watch sends it again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._splitter = LineSplitter()
        self._waiting: deque[bytes] = deque()
        self._handle: HandleLine | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._count = 0
        self._is_paused = False
        self._is_ended = False

    async def for_each(self, handle: HandleLine) -> int:
        """
        Call `handle` with each line until it returns True, or the lines end; return their number.

        It is called in the turn of the event loop in which the line arrives: no task is woken for
        a line, and nothing is received while it runs. Raise what it raises, and `LineTooLong`. May
        be called again; lines that arrive in between are kept, and the peer has to wait.
        """
        self._handle = handle
        self._count = 0
        try:
            self._deliver()
            if self._handle is not None and self._error is None and not self._is_ended:
                self._resume()
                self._stopped = asyncio.get_running_loop().create_future()
                await self._stopped
        finally:
            self._handle = self._stopped = None
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback refers to this frame: a cycle for the garbage collector.
            del error
        return self._count

    def close(self) -> None:
        """End the connection of the lines."""
        self._source.abort()

    def feed(self, parts: Iterable[bytes]) -> None:
        """Hand on the lines that end in these parts of the body."""
        for part in parts:
            try:
                self._waiting.extend(self._splitter.split(part))
            except LineTooLong as error:
                self._stop(error)
                return
        self._deliver()
        if self._waiting and not self._is_paused:
            self._is_paused = True
            self._source.pause()

    def end(self) -> None:
        """Handle the end of the body."""
        self._is_ended = True
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._source.resume()

    def _deliver(self) -> None:
        waiting = self._waiting
        while waiting and self._handle is not None:
            self._count += 1
            try:
                if self._handle(waiting.popleft()):
                    self._stop(None)
            except Exception as error:  # noqa: BLE001 - raised where `for_each` was called
                self._stop(error)

    def _stop(self, error: Exception | None) -> None:
        self._error = error
        self._handle = None
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)
