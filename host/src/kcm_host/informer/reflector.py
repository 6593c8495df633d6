"""One stream of the server: first all objects, then every change, for ever."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import NoReturn

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.client.errors import error_of_event, is_gone, is_too_large
from kcm_host.client.rest import JSON, METADATA_ONLY, Client
from kcm_host.informer import decoder, pager
from kcm_host.informer.backoff import Backoff
from kcm_host.informer.list_watch import ListWatchOptions, Sink

log = logging.getLogger(__name__)

#: A watch that ends sooner than this without any event is an error, not a normal end (IQ-28).
SHORT_SECONDS = 1.0
#: While the first data is awaited, silence is told this often (IQ-15).
PATIENCE_SECONDS = 10.0
#: A server may ask for patience (429) this long before the stream counts as broken: it does so for
#: a moment when a kind has just been defined.
BUSY_SECONDS = 5.0
EVENTS = ("ADDED", "MODIFIED", "DELETED")

Lines = AsyncIterator[bytes]


class RelistNeeded(HostError):
    """The stream has to be listed again after a wait; nothing is wrong."""


class Reflector:
    """
    Keeps a sink in step with one selection (IQ-1 to IQ-33).

    A round is: all objects by a streaming list, or by pages where the server has none; then
    watches, one after the other, until one fails in a way that needs a new list. Rounds follow
    each other with growing waits. resourceVersions are opaque: kept, sent back, never compared.
    """

    def __init__(
        self,
        selection: ListWatchOptions,
        client: Client,
        sink: Sink,
        *,
        agent: str,
        clock: Callable[[], float],
    ) -> None:
        self.selection = selection
        self.phase = "listing"
        self.error = ""
        self.version = ""
        self.lists = 0
        self._client = client
        self._sink = sink
        self._agent = agent
        self._clock = clock
        self._backoff = Backoff(clock, random.random)
        self._unavailable = False
        self._busy_since: float | None = None
        #: How many streams in a row ended too soon.
        self._early_ends = 0
        self._kinds = (selection.kind.name, "PartialObjectMetadata")

    async def run(self) -> None:
        """Keep the sink in step until cancelled."""
        while True:
            try:
                await self._round()
            except RelistNeeded as ended:
                self._log(logging.DEBUG, "stream will be listed again", reason=str(ended))
            except (HostError, msgspec.MsgspecError) as error:
                self._broken(error)
            except Exception as error:
                log.debug("unexpected", exc_info=True)
                self._broken(error)
            await self._wait()

    async def _round(self) -> NoReturn:
        async with AsyncExitStack() as stack:
            lines = await self._streaming_list(stack)
            if lines is None:
                self.version = await pager.paged_list(
                    self._client, self.selection, self._sink, agent=self._agent
                )
                await self._complete()
            else:
                async with self._patient(), stack.pop_all():
                    await self._consume(lines, seen=True)
        while True:
            await self._watch()

    async def _streaming_list(self, stack: AsyncExitStack) -> Lines | None:
        """
        Gather all objects from a watch, and give that watch to go on with (IQ-10 to IQ-15).

        None when the server cannot do it: then a paged list is due.
        """
        while True:
            version = "" if self._unavailable else self.version
            try:
                lines = await stack.enter_async_context(self._open(version, initial=True))
                async with self._impatience():
                    complete = await self._gather(lines)
            except (ApiError, Unreachable) as error:
                await stack.aclose()
                if not await self._streams_again(error, version):
                    return None
                continue
            if complete:
                return lines
            await stack.aclose()
            await self._ended_early("before its list was complete")

    async def _gather(self, lines: Lines) -> bool:
        """Collect until the end of the initial data; False when the stream ended before it."""
        started = self._clock()
        self._sink.init()
        seen = False
        async for line in lines:
            seen = True
            frame = self._frame(line)
            if frame.type == "ERROR":
                raise error_of_event(line, f"watch {self.selection.path}")
            if _is_bookmark(frame):
                if decoder.ends_initial(frame):
                    self.version = decoder.version_of(frame) or self.version
                    await self._complete()
                    return True
            elif self._fits(frame) and self._known(frame):
                self._sink.init_apply(frame.type, line, frame.object)
        if not seen and self._clock() - started < SHORT_SECONDS:
            raise ApiError(f"watch {self.selection.path}: ended at once, empty", status=500)
        return False

    async def _streams_again(self, error: ApiError | Unreachable, version: str) -> bool:
        """Say whether a failed streaming list is worth another try, after its wait (IQ-13)."""
        if _is_busy(error):
            await self._hold_out(error)
            return True
        if isinstance(error, ApiError) and (is_gone(error) or is_too_large(error)):
            if not version:
                raise error
            self._unavailable = True
            return True
        self._log(logging.DEBUG, "no streaming list, listing by pages", reason=str(error))
        return False

    async def _watch(self) -> None:
        """Follow the changes since the last version over one watch (IQ-24)."""
        async with self._patient(), self._open(self.version, initial=False) as lines:
            self._opened()
            await self._consume(lines)

    async def _consume(self, lines: Lines, *, seen: bool = False) -> None:
        """
        Hand on events until the watch ends; a normal end returns (IQ-25 to IQ-29).

        `seen` says that something came over this watch before.
        """
        started = self._clock()
        with self._lasting():
            async for line in lines:
                seen = True
                self._take(line)
        if self._clock() - started >= SHORT_SECONDS:
            return
        if not seen:
            raise ApiError(f"watch {self.selection.path}: ended at once, empty", status=500)
        await self._ended_early("within a second")

    def _take(self, line: bytes) -> None:
        """Hand on one event of a watch."""
        frame = self._frame(line)
        if frame.type == "ERROR":
            self._raise_event(line)
        if not self._fits(frame):
            return
        self.version = decoder.version_of(frame) or self.version
        if not _is_bookmark(frame) and self._known(frame):
            self._sink.event(frame.type, line, frame.object)

    def _frame(self, line: bytes) -> decoder.WatchEvent:
        """Read a line's head; one that cannot be read counts as a server error (IQ-29)."""
        try:
            return decoder.frame(line)
        except msgspec.MsgspecError as error:
            raise ApiError(
                f"watch {self.selection.path}: unreadable frame: {error}", status=500
            ) from error

    def _raise_event(self, line: bytes) -> NoReturn:
        error = error_of_event(line, f"watch {self.selection.path}")
        if is_gone(error):
            raise RelistNeeded(str(error))
        raise error

    @asynccontextmanager
    async def _open(self, version: str, *, initial: bool) -> AsyncIterator[Lines]:
        accept = METADATA_ONLY if self.selection.metadata_only else JSON
        query = self.selection.watch_query(version, initial=initial)
        async with self._client.watch(
            self.selection.path, agent=self._agent, query=query, accept=accept
        ) as lines:
            yield lines

    def _fits(self, frame: decoder.WatchEvent) -> bool:
        """Whether an event is about a named object of our kind; others are skipped (IQ-25)."""
        found = frame.object
        meta = found.metadata
        if meta is not None and found.kind in self._kinds and (meta.name or _is_bookmark(frame)):
            return True
        self._log(logging.WARNING, "foreign object in watch skipped", kind=found.kind)
        return False

    def _known(self, frame: decoder.WatchEvent) -> bool:
        """Whether an event tells of an object; types of another time are told (IQ-25)."""
        if frame.type in EVENTS:
            return True
        self._log(logging.WARNING, "unknown watch event", type=frame.type)
        return False

    async def _complete(self) -> None:
        for _ in self._sink.init_done():
            await asyncio.sleep(0)
        self.lists += 1
        self._unavailable = False
        self._opened()

    async def _ended_early(self, when: str) -> None:
        """Go on at once after a stream that ended too soon; after further ones tell it and wait."""
        self._early_ends += 1
        if self._early_ends > 1:
            text = f"watch {self.selection.path}: ended {when}, again and again"
            self._broken(HostError(f"{text}; see what cuts streams between host and server"))
            await self._wait()

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        """Forget streams that ended too soon when this one lasts."""
        steady = asyncio.get_running_loop().call_later(SHORT_SECONDS, self._lasted)
        try:
            yield
        finally:
            steady.cancel()

    def _lasted(self) -> None:
        self._early_ends = 0
        self._following()

    def _opened(self) -> None:
        """Take note of a stream that works, unless streams like it ended too soon."""
        if self._early_ends < 2:
            self._following()

    def _following(self) -> None:
        if self.phase == "broken":
            self._log(logging.INFO, "stream works again")
        self.phase = "following"
        self.error = ""
        self._busy_since = None

    def _broken(self, error: Exception) -> None:
        """Remember and tell a failure, once as long as it stays the same."""
        text = f"{error}{self.selection.remedy(error)}"
        if text != self.error:
            self._log(logging.WARNING, "stream broken, trying again", error=text)
        self.phase = "broken"
        self.error = text

    @asynccontextmanager
    async def _patient(self) -> AsyncIterator[None]:
        """Wait, without a new list, when the server is not there or busy (IQ-24, IQ-27)."""
        try:
            yield
        except (ApiError, Unreachable) as error:
            if not _is_busy(error):
                raise
            await self._hold_out(error)

    async def _hold_out(self, error: ApiError | Unreachable) -> None:
        """Wait for a server that is away, which is told at once, or busy, which is if it lasts."""
        now = self._clock()
        if self._busy_since is None:
            self._busy_since = now
        if isinstance(error, ApiError) and now - self._busy_since < BUSY_SECONDS:
            self._log(logging.DEBUG, "server asks for patience", reason=str(error))
        else:
            self._broken(error)
        await self._wait()

    async def _wait(self) -> None:
        await asyncio.sleep(self._backoff.seconds())

    @asynccontextmanager
    async def _impatience(self) -> AsyncIterator[None]:
        """Tell every 10 s that the first data is still awaited (IQ-15)."""

        async def tell() -> None:
            while True:
                await asyncio.sleep(PATIENCE_SECONDS)
                self._log(logging.WARNING, "still waiting for the first objects")

        teller = asyncio.create_task(tell())
        try:
            yield
        finally:
            teller.cancel()
            # Not a plain await: our own cancellation would be taken for the teller's.
            await asyncio.wait({teller})

    def _log(self, level: int, event: str, **pairs: str) -> None:
        log.log(level, event, extra={"kv": {"resource": str(self.selection), **pairs}})


def _is_busy(error: ApiError | Unreachable) -> bool:
    """Whether the server is not there or asks for patience: wait, without a new list."""
    if isinstance(error, Unreachable):
        return error.refused
    return error.status == 429


def _is_bookmark(frame: decoder.WatchEvent) -> bool:
    return frame.type == "BOOKMARK"
