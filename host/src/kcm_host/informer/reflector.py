"""The reflector: lists the objects of one informer, and then watches their changes."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import ClassVar, NoReturn

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.api.kinds import Kind
from kcm_host.client.errors import error_of_event, is_busy, is_gone, is_too_large
from kcm_host.client.rest import JSON, METADATA_ONLY, Client, Watch
from kcm_host.informer import decoder
from kcm_host.informer.list_watch import ListWatchOptions, Sink, paged_list
from kcm_host.retries import Backoff

log = logging.getLogger(__name__)

#: A watch that ends sooner than this without any event is an error, not a normal end (IQ-28).
MIN_WATCH_SECONDS = 1.0
#: Interval of warnings while the first list is incomplete (IQ-15).
SLOW_LIST_SECONDS = 10.0
#: A server may answer 429 for this long before the reflector counts as failed: it does so for a
#: moment when a kind has just been defined.
BUSY_SECONDS = 5.0
OBJECT_EVENTS = ("ADDED", "MODIFIED", "DELETED")


class Listing(msgspec.Struct, frozen=True):
    """The first list is not complete, and no attempt has failed."""

    phase: ClassVar[str] = "listing"
    error: ClassVar[str] = ""


class Watching(msgspec.Struct, frozen=True):
    """A list is complete and its watch is open, or the next one is being opened."""

    phase: ClassVar[str] = "watching"
    error: ClassVar[str] = ""


class Failed(msgspec.Struct, frozen=True):
    """The last attempt failed with `error`; the next one follows after a delay."""

    error: str
    phase: ClassVar[str] = "failed"


State = Listing | Watching | Failed


class RelistNeeded(HostError):
    """The resourceVersion has expired: a new list is due after a delay. Not a failure."""


class Reflector:
    """
    Keeps a sink up to date with the objects of some list-watch options (IQ-1 to IQ-33).

    A list-and-watch cycle consists of one list, streaming or, where the server has none, paged,
    and of consecutive watches, until one fails in a way that needs a new list. Cycles repeat with
    exponential backoff. A resourceVersion is opaque: it is stored and sent back, never compared.
    """

    def __init__(
        self,
        options: ListWatchOptions,
        client: Client,
        sink: Sink,
        *,
        user_agent: str,
        clock: Callable[[], float],
        correction: Callable[[Kind], str] = lambda _kind: "",
    ) -> None:
        """Prepare; `correction` returns what is wrong with a kind, empty if nothing is."""
        self.options = options
        self.state: State = Listing()
        #: Where the next watch begins; empty before the first list.
        self.resource_version = ""
        #: How many lists were completed.
        self.lists = 0
        self._client = client
        self._sink = sink
        self._user_agent = user_agent
        self._clock = clock
        self._correction = correction
        self._retry_requested = asyncio.Event()
        self._backoff = Backoff(clock, random.random)
        #: Whether the server has refused to list at `resource_version`.
        self._version_unavailable = False
        self._busy_since: float | None = None
        #: How many watches in succession ended too soon.
        self._early_ends = 0
        self._kinds = (options.kind.name, "PartialObjectMetadata")

    @property
    def phase(self) -> str:
        """The name of the state: `listing`, `watching` or `failed`."""
        return self.state.phase

    @property
    def error(self) -> str:
        """Why the last attempt failed, with the remedy; empty in the other states."""
        return self.state.error

    def retry(self) -> None:
        """End a delay after a failure, because its reason may be gone."""
        if isinstance(self.state, Failed):
            self._retry_requested.set()

    async def run(self) -> None:
        """Keep the sink up to date until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except RelistNeeded as reason:
                self._log(logging.DEBUG, "relist needed", reason=str(reason))
            except (HostError, msgspec.MsgspecError) as error:
                self._set_failed(error)
            except Exception as error:
                # A mistake of ours must not end the loop: the stream would stand still (F-10).
                log.debug("unexpected exception", exc_info=True)
                self._set_failed(error)
            await self._back_off()

    async def _list_and_watch(self) -> NoReturn:
        async with AsyncExitStack() as stack:
            watch = await self._streaming_list(stack)
            if watch is None:
                self.resource_version = await paged_list(
                    self._client, self.options, self._sink, user_agent=self._user_agent
                )
                await self._complete_list()
            else:
                # The watch that has listed goes on as the watch of changes (IQ-12).
                async with self._retrying_busy_server(), stack.pop_all():
                    await self._process_events(watch, after_list=True)
        while True:
            await self._watch()

    async def _streaming_list(self, stack: AsyncExitStack) -> Watch | None:
        """
        List all objects by a watch; return it, since it goes on with changes (IQ-10 to IQ-15).

        None when the server cannot do this: then a paged list is due.
        """
        while True:
            resource_version = "" if self._version_unavailable else self.resource_version
            try:
                watch = await stack.enter_async_context(
                    self._open_watch(resource_version, initial=True)
                )
                with self._warnings_while_slow():
                    complete = await self._process_initial_events(watch)
            except (ApiError, Unreachable) as error:
                await stack.aclose()
                if not await self._is_list_retried(error, resource_version):
                    return None
                continue
            if complete:
                return watch
            await stack.aclose()
            await self._handle_early_end("before the list was complete")

    async def _process_initial_events(self, watch: Watch) -> bool:
        """Pass on the initial objects; return whether their end was reached."""
        started = self._clock()
        self._sink.init()
        is_complete = False

        def handle(line: bytes) -> bool:
            nonlocal is_complete
            is_complete = self._process_initial_event(line)
            return is_complete

        count = await watch.for_each(handle)
        if is_complete:
            await self._complete_list()
        # Not repeated without a delay: a proxy may end every watch at once (IQ-14).
        elif not count and self._clock() - started < MIN_WATCH_SECONDS:
            raise self._empty_watch()
        return is_complete

    def _process_initial_event(self, line: bytes) -> bool:
        """Pass on one initial object; return whether this was their end instead."""
        event = self._decode(line)
        if event.type == "ERROR":
            raise error_of_event(line, f"watch {self.options.path}")
        if decoder.is_bookmark(event):
            if decoder.is_initial_events_end(event):
                self._advance(event)
                return True
        elif self._is_of_kind(event) and self._is_object_event(event):
            self._sink.init_apply(event.type, line, event.object)
        return False

    async def _is_list_retried(self, error: ApiError | Unreachable, resource_version: str) -> bool:
        """Return whether a failed streaming list is retried, after the delay (IQ-13)."""
        if is_busy(error):
            await self._wait_for_server(error)
            return True
        if isinstance(error, ApiError) and (is_gone(error) or is_too_large(error)):
            if not resource_version:
                raise error
            self._version_unavailable = True
            return True
        self._log(logging.DEBUG, "streaming list unavailable, listing pages", reason=str(error))
        return False

    async def _watch(self) -> None:
        """Watch the changes since the last resourceVersion, until this watch ends (IQ-24)."""
        async with (
            self._retrying_busy_server(),
            self._open_watch(self.resource_version, initial=False) as watch,
        ):
            self._handle_open_watch()
            await self._process_events(watch)

    async def _process_events(self, watch: Watch, *, after_list: bool = False) -> None:
        """
        Pass on events until the watch ends; return if the end is normal (IQ-25 to IQ-29).

        `after_list` says that this watch has transferred a list before, so it is not empty.
        """
        started = self._clock()
        with self._stability_timer():
            count = await watch.for_each(self._process_event)
        if self._clock() - started >= MIN_WATCH_SECONDS:
            return
        if not count and not after_list:
            raise self._empty_watch()
        await self._handle_early_end("within a second")

    def _process_event(self, line: bytes) -> bool:
        """Pass on one event; return False, since no event is the last one."""
        event = self._decode(line)
        if event.type == "ERROR":
            error = error_of_event(line, f"watch {self.options.path}")
            raise RelistNeeded(str(error)) if is_gone(error) else error
        # Before the version is taken, which may be ahead of what this kind has received (IQ-25).
        if self._is_of_kind(event):
            # Before the type is checked: one of an unknown type need not come again (IQ-25).
            self._advance(event)
            if not decoder.is_bookmark(event) and self._is_object_event(event):
                self._sink.apply(event.type, line, event.object)
        return False

    def _decode(self, line: bytes) -> decoder.WatchEvent:
        """Return one event; one that cannot be decoded counts as a server error (IQ-29)."""
        try:
            return decoder.decode_event(line)
        except msgspec.MsgspecError as error:
            raise ApiError(
                f"watch {self.options.path}: undecodable event: {error}", status=500
            ) from error

    def _advance(self, event: decoder.WatchEvent) -> None:
        self.resource_version = decoder.resource_version_of(event) or self.resource_version

    def _empty_watch(self) -> ApiError:
        return ApiError(f"watch {self.options.path}: ended at once without events", status=500)

    def _open_watch(
        self, resource_version: str, *, initial: bool
    ) -> AbstractAsyncContextManager[Watch]:
        return self._client.watch(
            self.options.path,
            user_agent=self._user_agent,
            query=self.options.watch_query(resource_version, initial=initial),
            accept=METADATA_ONLY if self.options.metadata_only else JSON,
        )

    def _is_of_kind(self, event: decoder.WatchEvent) -> bool:
        """Return whether an event is about a named object of this kind; log others (IQ-25)."""
        partial = event.object
        meta = partial.metadata
        if (
            meta is not None
            and partial.kind in self._kinds
            and (meta.name or decoder.is_bookmark(event))
        ):
            return True
        self._log(logging.WARNING, "object of another kind skipped", kind=partial.kind)
        return False

    def _is_object_event(self, event: decoder.WatchEvent) -> bool:
        """Return whether an event has a known type; log others (IQ-25)."""
        if event.type in OBJECT_EVENTS:
            return True
        self._log(logging.WARNING, "watch event of unknown type skipped", type=event.type)
        return False

    async def _complete_list(self) -> None:
        for _ in self._sink.init_done():
            await asyncio.sleep(0)
        self.lists += 1
        self._version_unavailable = False
        self._handle_open_watch()

    async def _handle_early_end(self, when: str) -> None:
        """Retry at once after the first early end; report further ones and back off."""
        # One early end is normal when a server restarts. A proxy that cut each stream after one
        # event got 3,269 lists in 3 s (F-26).
        self._early_ends += 1
        if self._early_ends > 1:
            text = f"watch {self.options.path}: ended {when}, several times in succession"
            self._set_failed(HostError(f"{text}; check what closes connections to the API server"))
            await self._back_off()

    @contextmanager
    def _stability_timer(self) -> Iterator[None]:
        """Reset the count of early ends when this watch lasts long enough."""
        timer = asyncio.get_running_loop().call_later(MIN_WATCH_SECONDS, self._handle_stable_watch)
        try:
            yield
        finally:
            timer.cancel()

    def _handle_stable_watch(self) -> None:
        self._early_ends = 0
        self._set_watching()

    def _handle_open_watch(self) -> None:
        """Count an open watch as recovery, unless earlier ones ended too soon."""
        if self._early_ends < 2:
            self._set_watching()

    def _set_watching(self) -> None:
        if isinstance(self.state, Failed):
            self._log(self._level(logging.INFO), "watch recovered")
        self.state = Watching()
        self._busy_since = None

    def _set_failed(self, error: Exception) -> None:
        """Set the state; log each failure once as long as its text stays the same."""
        text = f"{error}{self.options.remedy(error, self._correction(self.options.kind))}"
        if text != self.error:
            self._log(self._level(logging.WARNING), "watch failed, retrying", error=text)
        self.state = Failed(text)

    @asynccontextmanager
    async def _retrying_busy_server(self) -> AsyncIterator[None]:
        """Back off, without a new list, when the server is away or busy (IQ-24, IQ-27)."""
        try:
            yield
        except (ApiError, Unreachable) as error:
            if not is_busy(error):
                raise
            await self._wait_for_server(error)

    async def _wait_for_server(self, error: ApiError | Unreachable) -> None:
        """Back off; a server that is away is a failure at once, a busy one if that lasts."""
        now = self._clock()
        if self._busy_since is None:
            self._busy_since = now
        if isinstance(error, ApiError) and now - self._busy_since < BUSY_SECONDS:
            self._log(logging.DEBUG, "server busy, retrying", reason=str(error))
        else:
            self._set_failed(error)
        await self._back_off()

    async def _back_off(self) -> None:
        self._retry_requested.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.next_delay()):
                await self._retry_requested.wait()

    @contextmanager
    def _warnings_while_slow(self) -> Iterator[None]:
        """Log every 10 s that the first list is incomplete (IQ-15)."""
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def warn() -> None:
            self._log(logging.WARNING, "initial list still incomplete")
            timers[:] = [loop.call_later(SLOW_LIST_SECONDS, warn)]

        timers.append(loop.call_later(SLOW_LIST_SECONDS, warn))
        try:
            yield
        finally:
            timers[0].cancel()

    def _level(self, level: int) -> int:
        return logging.DEBUG if self.options.optional else level

    def _log(self, level: int, event: str, **pairs: str) -> None:
        log.log(level, event, extra={"kv": {"resource": str(self.options), **pairs}})
