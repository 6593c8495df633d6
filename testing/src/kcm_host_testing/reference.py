"""The reference: Kubernetes' own kube-controller-manager, with chosen controllers."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kcm_host_testing import identity, release, workspace
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.process import Process
from kcm_host_testing.usage import Usage, usage_of


class Reference:
    """
    One kube-controller-manager process at work on an API server.

    A context manager; also `start()` and `stop()`. It has no port to ask, so nothing says when
    its controllers are ready: wait for what they write.
    """

    def __init__(
        self,
        server: ApiServer,
        controllers: Sequence[str],
        *,
        kubeconfig: Path | None = None,
        service_accounts: bool = True,
        qps: int = 500,
        burst: int = 1000,
        extra_args: Sequence[str] = (),
        binaries: Path | None = None,
    ) -> None:
        """
        Describe a reference; nothing starts yet.

        `controllers` are upstream's names, with or without `-controller`. `kubeconfig` leads it
        elsewhere than to the server directly, through a proxy for example. With
        `service_accounts` each controller is its own account in `kube-system`, as in a cluster.
        """
        self._server = server
        self._program = (binaries or release.binaries_folder()) / "kube-controller-manager"
        self._kubeconfig = kubeconfig
        self._options = [
            f"--controllers={','.join(_full_name(name) for name in controllers)}",
            f"--use-service-account-credentials={str(service_accounts).lower()}",
            f"--kube-api-qps={qps}",
            f"--kube-api-burst={burst}",
            *extra_args,
        ]
        self._folder: Path | None = None
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """The process id; `ServerError` when it does not run."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Return whether the process exists and has not ended."""
        return self._process is not None and self._process.running

    @property
    def log(self) -> Path:
        """The file with all that the process wrote, there until `stop`."""
        return self._started().log

    def usage(self) -> Usage:
        """What the process has used so far."""
        return usage_of(self.pid)

    def start(self) -> None:
        """Start it and return at once."""
        self._folder = workspace.new_folder("kube-controller-manager")
        kubeconfig = self._kubeconfig or self._server.kubeconfig(identity.MANAGER)
        program: list[str | Path] = [
            self._program,
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *self._options,
        ]
        self._process = Process(program, log=self._folder / "kube-controller-manager.log")
        self._process.start()

    def stop(self) -> None:
        """End it and remove its folder. Stopping twice is fine."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._folder is not None:
            workspace.remove_folder(self._folder)
            self._folder = None

    def _started(self) -> Process:
        return Process.started(self._process, "kube-controller-manager")

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


def _full_name(name: str) -> str:
    return name if name == "*" or name.endswith("-controller") else f"{name}-controller"
