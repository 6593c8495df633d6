"""A real `kcm-host run` process for tests: started, asked through its pages, always ended."""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eventually import eventually

from kcm_host_testing import probe, workspace
from kcm_host_testing.process import Process

#: Any free port, and a log that a program can read; a test's own config goes over it.
DEFAULTS: Mapping[str, Any] = {
    "leaderElection": {"enabled": False},
    "http": {"bind": "127.0.0.1:0"},
    # At level debug every failure of a sync has a line of its own.
    "log": {"format": "json", "level": "debug"},
}


class RunningHost:
    """
    One host process with the given config.

    A context manager: entered when `/readyz` says so, ended with SIGTERM. `ready=False` only
    waits until the pages are served. It dies with the process that started it.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        kubeconfig: Path,
        ready: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a host; `config` is what the file holds, over `DEFAULTS`."""
        self._config = {**DEFAULTS, **config}
        self._kubeconfig = kubeconfig
        self._ready = ready
        self._environment = environment or {}
        self._folder: Path | None = None
        self._process: Process | None = None
        self.address = ""

    @property
    def process(self) -> Process:
        """The process, to pause and to signal; an error when it was not started."""
        return Process.started(self._process, "kcm-host")

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def log(self, event: str = "", **pairs: Any) -> list[dict[str, Any]]:
        """Return the log lines so far, those of one event and with these pairs."""
        # Without the last line while it is being written.
        text, _, _ = self.process.log.read_text(errors="replace").rpartition("\n")
        lines = [json.loads(line) for line in text.split("\n") if line.startswith("{")]
        return [
            line for line in lines if event in ("", line["event"]) and pairs.items() <= line.items()
        ]

    def page(self, path: str) -> tuple[int, bytes]:
        """Return status and body of one of its pages."""
        return probe.request(f"{self.address}{path}")

    def status(self) -> dict[str, Any]:
        """Return `/status`."""
        code, body = self.page("/status")
        assert code == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def controller(self, name: str) -> dict[str, Any]:
        """Return what `/status` says about one controller."""
        return _only(self.status()["controllers"], "name", name)

    def stream(self, resource: str) -> dict[str, Any]:
        """Return what `/status` says about the one stream of a resource."""
        return _only(self.status()["streams"], "resource", resource)

    def followed(self) -> list[str]:
        """Return the resources of the streams that controllers need, not only the host."""
        streams = self.status()["streams"]
        return sorted(one["resource"] for one in streams if one["controllers"] != ["kcm-host"])

    def metrics(self) -> dict[str, float]:
        """Return the series of `/metrics`: name and labels as written there -> value."""
        code, body = self.page("/metrics")
        assert code == 200, body
        lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def wait_until_seen(self, resource: str, version: str) -> None:
        """Return when everything up to this resourceVersion has gone through the watches."""
        eventually(
            lambda: int(self.stream(resource)["resourceVersion"] or 0) >= int(version),
            f"the host has seen version {version} of {resource}",
        )

    def wait_until_settled(
        self, controller: str, resource: str, touch: Callable[[], str]
    ) -> dict[str, Any]:
        """
        Return when the controller has nothing to do and all echoes of its writes are handled.

        `touch` makes an event of `resource` that the controller does not read, and gives its
        version. When the queue is empty at one such marker, and at the next one no sync has been
        added, then nothing is under way. Gives the controller's status.
        """
        syncs = -1
        while True:
            self.wait_until_seen(resource, touch())
            idle = eventually(lambda: self._idle(controller), f"{controller} is idle")
            if idle["syncs"] == syncs:
                return idle
            syncs = idle["syncs"]

    def start(self) -> None:
        """Start it and return when it is ready, or only serves its pages."""
        self._folder = workspace.new_folder("kcm-host")
        file = self._folder / "kcm-host.yaml"
        file.write_text(json.dumps(self._config))
        clean = {name: text for name, text in os.environ.items() if "KCM_HOST_" not in name}
        options = ["-c", str(file), "--kubeconfig", str(self._kubeconfig)]
        self._process = Process(
            [sys.executable, "-m", "kcm_host", "run", *options],
            log=self._folder / "kcm-host.log",
            environment={**clean, **self._environment},
        )
        self._process.start()
        self._process.wait_until(self._is_up, timeout_seconds=60)

    def stop(self, *, timeout_seconds: float = 60.0) -> int:
        """Ask it to end and give its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.ended(timeout_seconds=timeout_seconds)

    def ended(self, *, timeout_seconds: float = 60.0) -> int:
        """Return its exit code when it has ended."""
        process = self.process
        eventually(
            lambda: not process.running, "the host has ended", timeout_seconds=timeout_seconds
        )
        assert process.exit_code is not None
        return process.exit_code

    def close(self) -> None:
        """End it for good, whatever state it is in, and remove its folder."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._folder is not None:
            workspace.remove_folder(self._folder)
            self._folder = None

    def _is_up(self) -> bool:
        found = self.log("endpoints served")
        if not found:
            return False
        self.address = found[0]["address"]
        return not self._ready or probe.answers(f"{self.address}/readyz")

    def _idle(self, controller: str) -> dict[str, Any] | None:
        state = self.controller(controller)
        queue = state["queue"]
        busy = queue["depth"] or queue["waiting"] or queue["processing"]
        return None if busy else state

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _only(found: list[dict[str, Any]], field: str, value: str) -> dict[str, Any]:
    (one,) = [each for each in found if each[field] == value]
    return one
