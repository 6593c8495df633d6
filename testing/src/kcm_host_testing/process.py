"""A server process: started, awaited, paused and ended by its id, and never outliving us."""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kcm_host_testing import launch

# The signal at a parent's death goes out when the *thread* that forked ends, so one thread that
# lives as long as the process starts them all.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kcm-host-starter")

POLL_SECONDS = 0.02


class ServerError(Exception):
    """A server could not be started or did not become ready; carries the end of its log."""


class PortTakenError(ServerError):
    """The server ended because somebody else listens on its port."""


class Process:
    """
    One child process whose output goes to a log file.

    It runs in a session of its own, so Ctrl-C in the terminal reaches its owner alone; it dies
    with the owner, also when that is killed with SIGKILL (Linux).
    """

    def __init__(
        self,
        program: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.program = [str(part) for part in program]
        self._environment = environment
        self.name = Path(self.program[0]).name
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; `ServerError` when it was never started or is stopped."""
        if self._child is None:
            raise ServerError(f"{self.name} is not running; start it first")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Return whether the process exists and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it runs."""
        return None if self._child is None else self._child.poll()

    @staticmethod
    def started(process: "Process | None", name: str) -> "Process":
        """The process itself; `ServerError` when its owner has none now."""
        if process is None:
            raise ServerError(f"{name} is not running; start it first")
        return process

    def start(self) -> None:
        """Start the process and return at once; it is not ready yet."""
        if self._child is not None:
            raise ServerError(f"{self.name} was started already; stop it first")
        atexit.register(self.kill)
        _starter.submit(self._spawn).result()

    def _spawn(self) -> None:
        starter = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the program is one of the kit's own binaries
                [*starter, *self.program],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], *, timeout_seconds: float) -> None:
        """Return when `ready()` is true; `ServerError` when the process ends or time is up."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if not self.running:
                raise self._error(
                    f"{self.name} ended with code {self.exit_code} before it was ready"
                )
            if time.monotonic() > deadline:
                raise self._error(f"{self.name} was not ready within {timeout_seconds:g} s")
            time.sleep(POLL_SECONDS)

    def _error(self, fact: str) -> ServerError:
        tail = self.log_tail()
        kind = PortTakenError if "address already in use" in tail else ServerError
        return kind(f"{fact}; the last lines of its log '{self.log}':\n{tail}")

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the process wrote."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End the process: SIGTERM, and SIGKILL when the grace is over. Stopping twice is fine."""
        if self._child is not None and self.running:
            self.resume()
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace_seconds)
        self.kill()

    def kill(self) -> None:
        """End the process and its own children at once (SIGKILL) and wait until it is gone."""
        atexit.unregister(self.kill)
        if self._child is not None:
            if self.running:
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None
