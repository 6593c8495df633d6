"""A real etcd, which holds the objects of any number of API servers."""

import base64
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kcm_host_testing import probe, release, workspace
from kcm_host_testing.ports import free_port
from kcm_host_testing.process import PortTakenError, Process, ServerError

ATTEMPTS = 5


class Etcd:
    """
    One etcd process with a data folder of its own.

    A context manager; also `start()` and `stop()`. Loopback and no fsync: nothing in it survives.
    """

    def __init__(self, *, binaries: Path | None = None) -> None:
        self._program = (binaries or release.binaries_folder()) / "etcd"
        self._folder: Path | None = None
        self._process: Process | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """The process id; `ServerError` when it does not run."""
        return self._running().pid

    def start(self, *, timeout_seconds: float = 60.0) -> None:
        """Start and return when it answers; `ServerError` with the end of its log otherwise."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start_once(timeout_seconds)
            except PortTakenError:
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def _start_once(self, timeout_seconds: float) -> None:
        self._folder = workspace.new_folder("etcd")
        self.url = f"http://127.0.0.1:{free_port()}"
        program: list[str | Path] = [
            self._program,
            f"--data-dir={self._folder / 'data'}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls=http://127.0.0.1:{free_port()}",
            "--unsafe-no-fsync",
        ]
        self._process = Process(program, log=self._folder / "etcd.log")
        self._process.start()
        self._process.wait_until(
            lambda: probe.answers(f"{self.url}/health"), timeout_seconds=timeout_seconds
        )

    def pause(self) -> None:
        """Freeze it (SIGSTOP); API servers keep their connections and get no answers."""
        self._running().pause()

    def resume(self) -> None:
        """Continue it after `pause`."""
        self._running().resume()

    def _running(self) -> Process:
        return Process.started(self._process, "etcd")

    def stop(self) -> None:
        """End the process and remove its data. Stopping twice is fine."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._folder is not None:
            workspace.remove_folder(self._folder)
            self._folder = None

    def compact(self) -> int:
        """
        Drop all history up to now, for every prefix, and give the revision of now.

        The revision is raised first, so every version that a client has seen so far is history.
        API servers go on serving old versions from memory (their watch caches): a client meets
        `410 Gone` only after a restart, which `ApiServer.expire_history` does as well, or on a
        server with `extra_args=["--watch-cache=false"]`.
        """
        key = base64.b64encode(b"/kcm-host-testing/compacted").decode()
        answer = self._call("kv/put", {"key": key, "value": ""})
        revision = int(answer["header"]["revision"])
        self._call("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        status, text = probe.request(f"{self.url}/v3/{path}", method="POST", body=body)
        if status != 200:
            raise ServerError(f"etcd answered {status} to '{path}': {text.decode()}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
