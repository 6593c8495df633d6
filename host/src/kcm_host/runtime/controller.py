"""The life of one controller over all its runs: start, restart, drain."""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from kcm_host.api.errors import PLUGIN_FAILURES
from kcm_host.api.hooks import Metric
from kcm_host.api.sync import SyncRecord
from kcm_host.observe.metrics import FAILED, OUTCOMES
from kcm_host.observe.states import ControllerState
from kcm_host.plugins.quarantine import BrokenPlugin
from kcm_host.reconcile.worker import RunningSync
from kcm_host.reconcile.worker_group import stuck_problems
from kcm_host.retries import Backoff
from kcm_host.runtime.controller_run import (
    HOST,
    ControllerConfig,
    ControllerRun,
    SharedDependencies,
)
from kcm_host.runtime.event_handlers import RestartReason

log = logging.getLogger(__name__)

IDLE = "'kcm_watches' returned no watch"


class Starting(msgspec.Struct, frozen=True):
    """The caches of the first run are being filled."""

    phase: ClassVar[str] = "starting"
    problem: ClassVar[str] = ""
    run: ControllerRun | None = None


class Running(msgspec.Struct, frozen=True):
    """The caches are synced, and the workers run."""

    phase: ClassVar[str] = "running"
    problem: ClassVar[str] = ""
    run: ControllerRun


class Restarting(msgspec.Struct, frozen=True):
    """`run` is the one that ends, None while the next one is waited for, then that one."""

    phase: ClassVar[str] = "restarting"
    problem: str
    run: ControllerRun | None = None


class Quarantined(msgspec.Struct, frozen=True):
    """The plugin is broken; there is no further run."""

    phase: ClassVar[str] = "quarantined"
    run: ClassVar[None] = None
    problem: str


class Stopped(msgspec.Struct, frozen=True):
    """The host has drained the controller; the queue of its last run is closed."""

    phase: ClassVar[str] = "stopped"
    problem: ClassVar[str] = ""
    run: ControllerRun | None


State = Starting | Running | Restarting | Quarantined | Stopped


class Controller:
    """
    One enabled controller.

    It is restarted with exponential backoff when a watch function of the plugin raises, and at
    once when its watches depend on what the server serves and that has changed. It ends when the
    plugin turns out broken or the host drains it.
    """

    def __init__(self, config: ControllerConfig, shared: SharedDependencies) -> None:
        self.name = config.plugin.name
        self._config = config
        self._shared = shared
        self._state: State = Starting()
        self._restarts = 0
        self._draining = False
        self._outcomes = dict.fromkeys(OUTCOMES, 0)
        #: Syncs, also of earlier runs, that go on though they were cancelled.
        self._stuck: set[RunningSync] = set()
        self._backoff = Backoff(asyncio.get_running_loop().time, random.random)
        #: Set once the caches of a run were synced.
        self.cache_synced = asyncio.Event()

    @property
    def depends_on_discovery(self) -> bool:
        """Return whether its watches depend on what the server serves."""
        run = self._state.run
        return run is not None and run.depends_on_discovery

    def new_run(self) -> bool:
        """
        Create the next run and add its event handlers to the informers, which are not started.

        Return False when the plugin turns out broken; it is quarantined then.
        """
        try:
            run = ControllerRun(self._config, self._shared)
        except BrokenPlugin as broken:
            found = broken.quarantined
            self._enter(Quarantined(f"{found.reason}; {found.remedy}"))
            log.error(  # noqa: TRY400 - the reason says all, the stack is the plugin's own
                "plugin quarantined", extra={"kv": self._pairs(problem=self._state.problem)}
            )
            return False
        if isinstance(self._state, Restarting):
            self._state = Restarting(self._state.problem, run)
        else:
            self._state = Starting(run)
        for problem in run.wrong_kinds():
            log.error("kind declared wrongly", extra={"kv": self._pairs(problem=problem)})
        return True

    async def run(self) -> None:
        """Sync keys until drained; needs a successful `new_run`."""
        while not self._draining:
            # Without a run: an error of the host came between two runs.
            if self._state.run is not None:
                await self._restart(self._state.run, await self._until_restart(self._state.run))
            # The drain may have begun while the restart waited.
            if self._draining or not self.new_run():
                return
            self._shared.informers.start()

    async def drain(self) -> None:
        """Drop queued keys and wait for the running syncs; no sync begins any more."""
        self._draining = True
        if self._state.run is not None:
            await self._state.run.drain()
        self._enter(Stopped(self._state.run))

    async def cancel(self) -> None:
        """Cancel the running syncs; those that ignore this for 3 s are left behind."""
        if self._state.run is not None:
            await self._state.run.cancel()

    def log_stuck_syncs(self) -> bool:
        """Log the syncs that go on though they were cancelled; return whether there are any."""
        for problem in stuck_problems(self._stuck):
            log.error("syncs left behind", extra={"kv": self._pairs(problem=problem)})
        return bool(self._stuck)

    def discovery_changed(self) -> None:
        """Restart if the watches would be others now, or refresh the dynamic ones."""
        run = self._state.run
        if run is None or self._draining or run.is_ending:
            return
        try:
            run.discovery_changed()
        except BrokenPlugin as broken:
            log.error("watches not compared", extra={"kv": self._pairs(problem=str(broken))})  # noqa: TRY400 - the reason says all, the stack is the plugin's own

    def state(self, *, with_status: bool) -> ControllerState:
        """
        Return its state at this moment.

        `with_status` also calls `kcm_status`, whose cost may grow with the cluster.
        """
        candidate = self._config.plugin.candidate
        run = self._state.run
        is_running = isinstance(self._state, Running)
        problems = [*stuck_problems(self._stuck), *(run.problems() if run else [])]
        watch_problems = run.watch_problems() if run else []
        return ControllerState(
            name=self.name,
            phase=self._state.phase,
            ready=is_running and not problems,
            distribution=candidate.distribution,
            version=candidate.version,
            idle=_idle_reason(run) if is_running and run and run.is_idle else "",
            problem=self._state.problem or "; ".join([*problems, *watch_problems]),
            workers=self._config.workers,
            queue_name=self._config.plugin.info.queue_name,
            restarts=self._restarts,
            syncs=sum(self._outcomes.values()),
            errors=sum(self._outcomes[outcome] for outcome in FAILED),
            queue=run.queue.state() if run else None,
            write_pause_seconds=round(run.write_pause_seconds, 3) if run else 0.0,
            status=self._status() if with_status else {},
        )

    def metrics(self) -> tuple[Metric, ...]:
        """Return the plugin's own metrics, none while it does not run; its exceptions pass."""
        return self._state.run.metrics() if isinstance(self._state, Running) else ()

    def count(self, record: SyncRecord) -> None:
        """Count the outcome of a sync."""
        self._outcomes[record.outcome] += 1

    async def _until_restart(self, run: ControllerRun) -> RestartReason:
        """Sync keys once the caches are synced; return why the run has to end."""
        await run.wait_for_cache_sync()
        if not run.is_ending:
            self.cache_synced.set()
            if not self._draining:
                self._enter(Running(run))
                if run.is_idle:
                    log.info("controller idle", extra={"kv": self._pairs(reason=_idle_reason(run))})
                try:
                    run.start(stuck=self._stuck)
                except Exception as error:  # noqa: BLE001 - an error of the host restarts as well
                    run.restart(RestartReason.of_error(error, source=HOST))
        return await run.restart_requested()

    async def _restart(self, run: ControllerRun, reason: RestartReason) -> None:
        """Stop a run; after an error wait before the next one."""
        level = logging.INFO
        if reason.error is not None:
            level = logging.ERROR
            log.debug("controller run failed", exc_info=reason.error)
        log.log(level, "controller restarting", extra={"kv": self._pairs(problem=reason.text)})
        self._restarts += 1
        self._enter(Restarting(reason.text, run))
        await run.cancel()
        if isinstance(self._state, Restarting):
            self._state = Restarting(reason.text)
        await run.stop()
        # Only after an error: a change of what the server serves is no reason to wait.
        if reason.error is not None:
            await asyncio.sleep(self._backoff.next_delay())

    def _enter(self, state: State) -> None:
        self._state = state
        log.info("controller", extra={"kv": self._pairs(phase=state.phase)})

    def _status(self) -> Mapping[str, Any]:
        if not isinstance(self._state, Running):
            return {}
        try:
            return self._state.run.status()
        except PLUGIN_FAILURES as error:
            return {"error": f"kcm_status raised {type(error).__name__}: {error}"}

    def _pairs(self, **pairs: str) -> dict[str, str]:
        return {"controller": self.name, **pairs}


def _idle_reason(run: ControllerRun) -> str:
    missing = run.missing_kinds()
    return f"waits for {', '.join(missing)}" if missing else IDLE
