"""The two sides: the Go reference and the host, started and ended the same way."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from parity.controllers import CONTROLLERS
from parity.scenario import Cluster
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.reference import Reference

#: With a proxy on the way: it hands on watches line by line, and only JSON comes in lines.
BY_LINES = ("--kube-api-content-type=application/json",)
#: What makes the reference comparable within a test: no brake, and quotas looked at again soon.
UNTHROTTLED = ("--resource-quota-sync-period=10s",)


class Running(Protocol):
    """A process with the controllers in it."""

    def start(self) -> None:
        """Start it."""

    def stop(self) -> None:
        """End it in order and forget it."""

    def kill(self) -> None:
        """End it at once (SIGKILL) and forget it."""

    def is_idle(self) -> bool:
        """Return whether no key is known to wait for a worker or to be synced."""


class Side(Protocol):
    """One of the two who are compared."""

    @property
    def name(self) -> str:
        """How results and failures call it."""

    @property
    def agent(self) -> str:
        """How the user agent of all its requests begins."""

    def running(
        self, server: ApiServer, kubeconfig: Path, controllers: Sequence[str], cluster: Cluster
    ) -> Running:
        """Describe a process of its own with these controllers; nothing starts yet."""


class TheReference:
    """The Go kube-controller-manager, each controller as its own service account."""

    name = "reference"
    agent = "kube-controller-manager/"

    def running(
        self, server: ApiServer, kubeconfig: Path, controllers: Sequence[str], cluster: Cluster
    ) -> Running:
        """Describe a kube-controller-manager."""
        return _Killable(
            server,
            [CONTROLLERS[name].upstream for name in controllers],
            kubeconfig=kubeconfig,
            extra_args=[
                *(BY_LINES if cluster.proxied else ()),
                *UNTHROTTLED,
                *cluster.reference_args,
            ],
        )


class TheHost:
    """`kcm-host run`, with the reference's identity and, to write, the same service accounts."""

    name = "host"
    agent = "kcm-host/"

    def running(
        self, server: ApiServer, kubeconfig: Path, controllers: Sequence[str], cluster: Cluster
    ) -> Running:
        """Describe a host."""
        named = {name: _with(cluster.settings.get(name)) for name in controllers}
        config = {"controllers": named, "serviceAccountCredentials": True, "startTimeout": "60s"}
        return _Host(RunningHost(config, kubeconfig=kubeconfig))


class _Killable(Reference):
    """A reference that can be killed."""

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def is_idle(self) -> bool:
        """Return True: the reference is asked nothing, so that nothing slows it down."""
        return True


class _Host:
    """A host that checks, when it is stopped, that it ends in order."""

    def __init__(self, host: RunningHost) -> None:
        self._host = host

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self._host.start()

    def stop(self) -> None:
        """End it; it must drain."""
        try:
            assert self._host.stop() == 0, "the host did not end in order"
        finally:
            self._host.close()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self._host.pid, signal.SIGKILL)
        self._host.close()

    def is_idle(self) -> bool:
        """Return whether its queues are empty: on a loaded machine silence alone proves nothing."""
        queues = [one["queue"] for one in self._host.status()["controllers"]]
        return not any(queue and queue["depth"] + queue["processing"] for queue in queues)


def _with(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"settings": dict(settings)} if settings else {}
