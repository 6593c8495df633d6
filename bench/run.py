"""One candidate at work on one stage, from its start to its end."""

import ctypes
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.candidates import Candidate, clean_environment
from bench.machine import cpu_seconds
from bench.outcome import WrongOutcome
from bench.stage import Stage
from bench.trail import Trail
from kcm_host_testing.usage import Usage, usage_of

RESOURCES = frozenset(
    {
        "nodes",
        "clusterroles",
        "servicecidrs",
        "pods",
        "resourceclaims",
        "resourcequotas",
        "configmaps",
    }
)
PATIENCE_SECONDS = 120.0
QUIET_SECONDS = 1.0
# More processor time than this within the quiet second is work, not idling.
IDLE_CPU_SECONDS = 0.02
POLL_SECONDS = 0.005

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class Run:
    """
    A context manager: the process starts on entry and is ended with SIGTERM.

    It is started without a shell or starter between, so its clock begins at `started_at` and all
    of its processor time is its own.
    """

    def __init__(self, candidate: Candidate, stage: Stage, controllers: Sequence[str]) -> None:
        self._candidate = candidate
        self._stage = stage
        self._controllers = controllers
        self._folder = tempfile.TemporaryDirectory(prefix="kcm-host-bench-")
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.trail = Trail(
            stage.server.audit.path, user_agent=candidate.user_agent, resources=RESOURCES
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._running().pid

    def cpu_seconds(self) -> float:
        """Return its processor time since its start; `WrongOutcome` when it has ended."""
        self._running()
        return cpu_seconds(self.pid)

    def usage(self) -> Usage:
        """Return its memory now."""
        return usage_of(self._running().pid)

    def wait_for_writes(self, count: int) -> None:
        """Return as soon as the audit log has so many writes in `trail`."""
        self.wait_until(lambda: len(self.trail.writes) >= count, f"{count} writes")

    def wait_until_watching(self, resource: str) -> None:
        """Return when it has opened its watch for a resource."""
        self.wait_until(
            lambda: any(r.verb == "watch" and r.resource == resource for r in self.trail.requests),
            f"a watch for {resource}",
        )

    def wait_until_quiet(self) -> None:
        """Return when it has written nothing and hardly used the processor for a second."""
        self.wait_until(self._quiet_second, "it to be quiet")

    def wait_until(
        self, reached: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Return as soon as `reached` says yes, which it is asked whenever `trail` was read."""
        deadline = time.monotonic() + seconds
        while True:
            self._running()
            self.trail.read()
            if reached():
                return
            if time.monotonic() > deadline:
                raise self._wrong(
                    f"waited {seconds:g} s for {what}; {len(self.trail.writes)} writes were seen"
                )
            time.sleep(POLL_SECONDS)

    def _quiet_second(self) -> bool:
        """Wait for a second that is cut short by the first sign of work."""
        cpu, end = self.cpu_seconds(), time.monotonic() + QUIET_SECONDS
        while time.monotonic() < end:
            time.sleep(QUIET_SECONDS / 20)
            if self.trail.read() or self.cpu_seconds() - cpu > IDLE_CPU_SECONDS:
                return False
        return True

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the candidate is not started; enter the run first")
        if self._process.poll() is not None:
            raise self._wrong(f"ended by itself with code {self._process.returncode}")
        return self._process

    def _wrong(self, fact: str) -> WrongOutcome:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
        return WrongOutcome(f"{self._candidate.name}: {fact}; the end of its log:\n{tail}")

    @property
    def _log(self) -> Path:
        return Path(self._folder.name) / "log"

    def __enter__(self) -> Self:
        kubeconfig = self._stage.server.kubeconfig()
        program = self._candidate.program(kubeconfig, self._controllers, self._log.parent)
        environment = clean_environment()
        with self._log.open("wb") as log:
            self.started_at = time.time()
            self._process = subprocess.Popen(
                program,
                cwd=self._log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no other thread holds a lock here
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            code = self._end()
            if code != 0 and self._candidate.strict and error is None:
                raise self._wrong(f"ended with code {code} after SIGTERM, not 0")
        finally:
            self._folder.cleanup()

    def _end(self) -> int | None:
        process = self._process
        if process is None or process.poll() is not None:
            return process.returncode if process else None
        process.terminate()
        try:
            return process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
