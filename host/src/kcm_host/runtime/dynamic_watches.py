"""Watches that come and go while a controller runs."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from kcm_host.api.discovery import Discovery
from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.watches import AnyWatch
from kcm_host.plugins.plugin import Instance, WrongResult
from kcm_host.runtime.event_handlers import ActiveWatch, EventDispatcher, Mark, WatchSet, mark_of

log = logging.getLogger(__name__)

HOOK = "kcm_more_watches"
PAUSE_SECONDS = 0.1


class DynamicWatches:
    """
    What one start follows beyond its `kcm_watches`, as the plugin says at the moment.

    An answer that cannot be used changes nothing, and one of these watches that cannot be
    followed holds up nothing else.
    """

    def __init__(
        self,
        instance: Instance,
        settings: Any,
        *,
        discovery: Discovery,
        functions: EventDispatcher,
        following: WatchSet,
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._discovery = discovery
        self._functions = functions
        self._following = following
        self._refused = ""

    def ask_soon(self) -> None:
        """Let the plugin be asked again."""
        self._functions.rewatch.set()

    async def run(self) -> None:
        """Ask the plugin now and whenever that is wanted, ten times a second at most."""
        self.ask_soon()
        while True:
            await self._functions.rewatch.wait()
            self._functions.rewatch.clear()
            watches = self._asked()
            if watches is not None:
                await self._follow(watches)
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Follow none of them any more."""
        await self._following.end_all()

    def followed(self) -> list[ActiveWatch]:
        """See `WatchSet.followed`."""
        return self._following.followed()

    def problems(self) -> list[str]:
        """Give what is wrong with them at present."""
        return [*([self._refused] if self._refused else []), *self._following.problems()]

    def _asked(self) -> tuple[AnyWatch, ...] | None:
        """Give the plugin's answer, None when there is none that can be used."""
        if self._functions.failure.done():
            return None
        view = self._functions.view
        try:
            watches = self._instance.more_watches(view, self._settings, self._discovery)
        except WrongResult as error:
            self._refuse(str(error))
            return None
        except PLUGIN_FAILURES as error:
            self._functions.fail(error, culprit=f"'{HOOK}'")
            return None
        self._refused = ""
        return watches

    async def _follow(self, watches: Iterable[AnyWatch]) -> None:
        wanted = {mark_of(watch): watch for watch in watches}
        known = self._following.marks
        begun = [mark for mark in wanted if mark not in known]
        ended = known - wanted.keys()
        kept = wanted.keys() & known
        changed = [mark for mark in kept if not self._following.is_declared(wanted[mark])]
        for mark in begun:
            self._following.begin(wanted[mark])
        for mark in changed:
            self._following.replace(wanted[mark])
        # No change may be told before all of them are followed.
        self._following.open()
        await self._following.leave_replaced()
        if begun or ended or changed:
            pairs = {"begun": begun, "changed": changed, "ended": ended}
            named = {what: _named(marks) for what, marks in pairs.items() if marks}
            self._log(logging.INFO, "other watches", **named)
        for mark in ended:
            await self._following.end(mark)

    def _refuse(self, text: str) -> None:
        """Tell that an answer is not usable, once as long as it stays the same."""
        if text != self._refused:
            self._log(logging.ERROR, "watches refused, those before go on", problem=text)
        self._refused = text

    def _log(self, level: int, event: str, **pairs: str) -> None:
        pairs = {"controller": self._instance.plugin.name, **pairs}
        log.log(level, event, extra={"kv": pairs})


def _named(marks: Iterable[Mark]) -> str:
    return ", ".join(sorted(f"{kind} {kind.version}" for kind, _ in marks))
