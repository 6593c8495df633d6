"""The life of one controller over all its starts: run, restart, drain."""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.metrics import Metric
from kcm_host.api.records import SyncRecord
from kcm_host.api.states import ControllerState
from kcm_host.informer.backoff import Backoff
from kcm_host.plugins.quarantine import BrokenPlugin
from kcm_host.reconcile.time_limit import Running
from kcm_host.reconcile.worker_group import stuck_problems
from kcm_host.runtime.controller_run import ControllerConfig, RunTasks, SharedDependencies, Start

log = logging.getLogger(__name__)

IDLE = "the server serves nothing that it follows"


class WatchesChanged(Exception):
    """A start follows what it would not follow any more if it began now."""


class Controller:
    """
    One enabled controller.

    It is started again, with growing waits, when a watch function of the plugin raises, and at
    once when its watches depend on what the server serves and that has changed; it ends for good
    when the plugin turns out broken or the host drains it.
    """

    def __init__(self, setup: ControllerConfig, services: SharedDependencies) -> None:
        self.name = setup.plugin.name
        self._setup = setup
        self._services = services
        self._start: Start | None = None
        self._crew: RunTasks | None = None
        self._phase = "starting"
        self._problem = ""
        self._restarts = 0
        self._draining = False
        self._outcomes = {"done": 0, "later": 0, "error": 0, "timeout": 0, "cancelled": 0}
        #: Syncs, of earlier starts too, that go on though they were cancelled.
        self._stuck: set[Running] = set()
        self._backoff = Backoff(asyncio.get_running_loop().time, random.random)
        #: Set once the initial objects of the first start are known.
        self.known = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether it knows its objects and syncs keys."""
        return self._phase == "running"

    @property
    def depends_on_discovery(self) -> bool:
        """Whether anything depends on what the server serves."""
        start = self._start
        return start is not None and (start.discovery.asked or start.more is not None)

    def prepare(self) -> bool:
        """Make a new instance and join the streams; False when the plugin turns out broken."""
        try:
            self._start = Start(self._setup, self._services)
        except BrokenPlugin as broken:
            found = broken.quarantined
            self._enter("quarantined", f"{found.reason}; {found.remedy}")
            log.error(  # noqa: TRY400 - the reason is told, the stack is the plugin's own
                "plugin quarantined", extra={"kv": self._pairs(problem=self._problem)}
            )
            return False
        return True

    async def run(self) -> None:
        """Sync keys until drained; needs a successful `prepare`."""
        while not self._draining:
            # None: a failure in the host's own code was between two starts.
            if self._start is not None:
                await self._live_and_leave(self._start)
            if self._draining or not self.prepare():
                return
            self._services.streams.open()

    async def drain(self) -> None:
        """Drop what is queued and wait for the running syncs; no new one begins."""
        self._draining = True
        if self._start is not None:
            self._start.queue.close()
        if self._crew is not None:
            await self._crew.drain()
        self._enter("stopped", "")

    async def cancel(self) -> None:
        """End the running syncs now; those that go on are left behind after 3 s."""
        if self._crew is not None:
            await self._crew.cancel()

    def left_behind(self) -> bool:
        """Whether syncs go on though they were cancelled; tells which."""
        for problem in stuck_problems(self._stuck):
            log.error("syncs left behind", extra={"kv": self._pairs(problem=problem)})
        return bool(self._stuck)

    def discovery_changed(self) -> None:
        """Start again if the watches would be others now, and ask for more watches."""
        start = self._start
        if start is None or self._draining or start.failure.done():
            return
        try:
            difference = start.outdated()
        except BrokenPlugin as broken:
            log.error("watches not told", extra={"kv": self._pairs(problem=str(broken))})  # noqa: TRY400 - the reason is told, the stack is the plugin's own
            return
        if difference:
            start.functions.fail(
                WatchesChanged(f"the server serves other kinds now: it {difference}")
            )
        elif start.more is not None:
            start.more.ask_soon()

    def state(self, *, with_status: bool) -> ControllerState:
        """
        Return what is known of it at this moment.

        `with_status` also calls `kcm_status`, whose cost may grow with the cluster.
        """
        candidate = self._setup.plugin.candidate
        start = self._start
        problems = stuck_problems(self._stuck)
        problems += [*start.following.problems(), *start.refusals.problems()] if start else []
        extras = start.aside.problems() if start else []
        extras += start.more.problems() if start and start.more else []
        return ControllerState(
            name=self.name,
            phase=self._phase,
            ready=self.running and not problems,
            distribution=candidate.distribution,
            version=candidate.version,
            idle=IDLE if self.running and start and start.idle else "",
            problem=self._problem or "; ".join([*problems, *extras]),
            workers=self._setup.workers,
            restarts=self._restarts,
            syncs=sum(self._outcomes.values()),
            errors=self._outcomes["error"] + self._outcomes["timeout"],
            queue=start.queue.state() if start else None,
            write_pause_seconds=round(start.sender.pause_seconds, 3) if start else 0.0,
            status=self._status() if with_status else {},
        )

    def metrics(self) -> tuple[Metric, ...]:
        """Give the plugin's own metrics, none while it does not run; its exceptions pass."""
        start = self._start
        if start is None or not self.running or not start.instance.has("kcm_metrics"):
            return ()
        return start.instance.metrics(start.view, self._setup.settings)

    def count(self, record: SyncRecord) -> None:
        """Take note of a sync that ended."""
        self._outcomes[record.outcome] += 1

    async def _live_and_leave(self, start: Start) -> None:
        try:
            await self._live(start)
        except WatchesChanged as outdated:
            log.info("controller restarts", extra={"kv": self._pairs(problem=str(outdated))})
            await self._leave(start, str(outdated))
        except Exception as error:  # noqa: BLE001 - plugin code failed: start again
            await self._fall(start, error)

    async def _live(self, start: Start) -> None:
        await start.synced()
        self.known.set()
        if self._draining:
            return
        self._enter("running", "")
        if start.idle:
            log.info("controller idle", extra={"kv": self._pairs(reason=IDLE)})
        self._crew = RunTasks(start, workers=self._setup.workers, stuck=self._stuck)
        await self._crew.broken()

    async def _fall(self, start: Start, error: Exception) -> None:
        """Leave everything after a failure and wait before the next start."""
        # Workers settle what plugins raise, so anything that ends one is a mistake of the host's.
        who = start.functions.culprit or "the host (please report it)"
        text = f"{who} raised {type(error).__name__}: {error}"
        log.debug("controller fell", exc_info=error)
        log.error("controller restarts", extra={"kv": self._pairs(problem=text)})
        await self._leave(start, text)
        await asyncio.sleep(self._backoff.seconds())

    async def _leave(self, start: Start, why: str) -> None:
        self._restarts += 1
        self._enter("restarting", why)
        await self.cancel()
        self._crew = self._start = None
        await start.leave()

    def _enter(self, phase: str, problem: str) -> None:
        self._phase = phase
        self._problem = problem
        log.info("controller", extra={"kv": self._pairs(phase=phase)})

    def _status(self) -> Mapping[str, Any]:
        if self._start is None or not self.running:
            return {}
        try:
            return self._start.instance.status(self._start.view, self._setup.settings)
        except PLUGIN_FAILURES as error:
            return {"error": f"kcm_status raised {type(error).__name__}: {error}"}

    def _pairs(self, **pairs: str) -> dict[str, str]:
        return {"controller": self.name, **pairs}
