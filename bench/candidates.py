"""Those who are measured: how each is started, and as whom the audit log knows it."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kcm_host_testing import release

# What of the caller's environment could change how a candidate starts or what it runs.
_FOREIGN = ("PYTHON", "KCM_HOST_", "KUBECONFIG", "OTEL_", "GOGC", "GOMAXPROCS", "GOMEMLIMIT")

# Upstream's name is ours and `-controller`, but for these.
_UPSTREAM = {"servicecidrs": "service-cidr-controller"}


class Against(StrEnum):
    """Whom ours is compared with; the value is the name of that candidate."""

    REFERENCE = "reference"
    ON_EVENT = "kopf on.event"
    ON_UPDATE = "kopf on.update"
    NOBODY = "nobody"


OURS = "ours"
_OPERATORS = Path(__file__).parent / "toy_kopf"
_HANDLERS = {Against.ON_EVENT: "on_event.py", Against.ON_UPDATE: "on_update.py"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """
    One of the programs.

    `program` makes its command from a kubeconfig, the controllers and a folder for its files.
    """

    name: str
    user_agent: str
    program: Callable[[Path, Sequence[str], Path], list[str]]
    strict: bool = False
    """Whether a write too many, or an exit code other than 0, makes its outcome wrong."""


def reference() -> Candidate:
    """
    The Go kube-controller-manager, with a client limit that it never meets.

    One identity for all its controllers, as ours has: otherwise it would first make itself
    service accounts and tokens.
    """
    binary = release.binaries_folder() / "kube-controller-manager"

    def program(kubeconfig: Path, controllers: Sequence[str], _folder: Path) -> list[str]:
        return [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--controllers={','.join(_upstream(name) for name in controllers)}",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    return Candidate(Against.REFERENCE, "kube-controller-manager/", program)


def _upstream(name: str) -> str:
    return _UPSTREAM.get(name, f"{name}-controller")


def ours(command: Path) -> Candidate:
    """`kcm-host run` as installed, with default settings."""

    def program(kubeconfig: Path, controllers: Sequence[str], folder: Path) -> list[str]:
        config = {
            "controllers": {name: {} for name in controllers},
            "leaderElection": {"enabled": False},
            "http": {"bind": "127.0.0.1:0"},
        }
        file = folder / "kcm-host.yaml"
        file.write_text(json.dumps(config))
        return [str(command), "run", "-c", str(file), "--kubeconfig", str(kubeconfig)]

    return Candidate(OURS, "kcm-host/", program, strict=True)


def kopf(command: Path, against: Against) -> Candidate:
    """`kopf run` as installed, with the toy operator that has these handlers."""
    scripts = [str(_OPERATORS / name) for name in ("settings.py", _HANDLERS[against])]

    def program(kubeconfig: Path, _controllers: Sequence[str], _folder: Path) -> list[str]:
        # It has no option for a kubeconfig; `env` replaces itself by the program. `--quiet` leaves
        # out its lines about each handler, as ours logs no line about each sync.
        start = ["/usr/bin/env", f"KUBECONFIG={kubeconfig}", str(command), "run"]
        return [*start, "--standalone", "--all-namespaces", "--quiet", *scripts]

    return Candidate(against, "kopf/", program)


def clean_environment() -> Mapping[str, str]:
    """Return this process's environment without what would make a start unlike a user's."""
    return {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
