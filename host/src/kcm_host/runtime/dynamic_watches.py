"""Watches that a plugin adds and removes while its controller runs."""

import asyncio
import logging
from collections.abc import Iterable

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.kinds import Discovery
from kcm_host.api.watch import AnyWatch, name_of
from kcm_host.plugins.plugin import Instance, WrongResult
from kcm_host.runtime.event_handlers import ActiveWatch, EventDispatcher, WatchSet

log = logging.getLogger(__name__)

HOOK = "kcm_dynamic_watches"
#: A function that requests a refresh for every change must not make a loop.
PAUSE_SECONDS = 0.1


class DynamicWatches:
    """
    The watches of one controller run that `kcm_dynamic_watches` returns.

    An invalid result changes nothing, and a failed informer of these watches holds up no sync.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        discovery: Discovery,
        dispatcher: EventDispatcher,
        watches: WatchSet,
    ) -> None:
        self._instance = instance
        self._discovery = discovery
        self._dispatcher = dispatcher
        self._watches = watches
        self._error = ""

    def refresh(self) -> None:
        """Request that the hook is called again soon."""
        self._dispatcher.refresh_requested.set()

    async def run(self) -> None:
        """Call the hook now and at each request, ten times a second at most."""
        self.refresh()
        while True:
            await self._dispatcher.refresh_requested.wait()
            # Before the hook is called: a request that comes meanwhile is for the next call.
            self._dispatcher.refresh_requested.clear()
            watches = self._call_hook()
            # An invalid result changes nothing: half of it would be a state that nobody has asked
            # for.
            if watches is not None:
                await self._apply(watches)
            await asyncio.sleep(PAUSE_SECONDS)

    async def stop(self) -> None:
        """Remove all of these watches."""
        await self._watches.remove_all()

    def active(self) -> list[ActiveWatch]:
        """See `WatchSet.active`."""
        return self._watches.active()

    def problems(self) -> list[str]:
        """Return the error of the last result, and those of failed informers."""
        return [*([self._error] if self._error else []), *self._watches.problems()]

    def _call_hook(self) -> tuple[AnyWatch, ...] | None:
        """Return the result of the hook, None when it is invalid or the run is ending."""
        if self._dispatcher.closed:
            return None
        view = self._dispatcher.view
        try:
            watches = self._instance.dynamic_watches(view, self._discovery)
        except WrongResult as error:
            self._refuse(str(error))
            return None
        except PLUGIN_FAILURES as error:
            self._dispatcher.fail(error, source=f"'{HOOK}'")
            return None
        self._error = ""
        return watches

    async def _apply(self, watches: Iterable[AnyWatch]) -> None:
        wanted = {name_of(watch): watch for watch in watches}
        active = self._watches.names
        added = [name for name in wanted if name not in active]
        removed = active - wanted.keys()
        kept = wanted.keys() & active
        changed = [name for name in kept if not self._watches.is_unchanged(wanted[name])]
        for name in kept.difference(changed):
            self._watches.use_functions(wanted[name])
        for name in added:
            self._watches.add(wanted[name])
        for name in changed:
            self._watches.replace(wanted[name])
        # Started together: a handler must not be called before all stores of the view are there.
        self._watches.start()
        await self._watches.remove_replaced()
        if added or removed or changed:
            sets = {"added": added, "changed": changed, "removed": removed}
            pairs = {what: ", ".join(sorted(names)) for what, names in sets.items() if names}
            self._log(logging.INFO, "dynamic watches changed", **pairs)
        for name in removed:
            await self._watches.remove(name)

    def _refuse(self, text: str) -> None:
        """Log an invalid result, once as long as it stays the same."""
        if text != self._error:
            self._log(logging.ERROR, "dynamic watches invalid, previous ones kept", problem=text)
        self._error = text

    def _log(self, level: int, event: str, **pairs: str) -> None:
        pairs = {"controller": self._instance.plugin.name, **pairs}
        log.log(level, event, extra={"kv": pairs})
