"""Runs kubectl and gives what it prints."""

import subprocess
from pathlib import Path

from kcm_host_testing import release


class KubectlError(Exception):
    """kubectl failed; the message holds the command and what it wrote to stderr."""


class Kubectl:
    """kubectl with one kubeconfig: `Kubectl(path)("get", "nodes", "-o", "name")`."""

    def __init__(self, kubeconfig: Path, *, binaries: Path | None = None) -> None:
        self._program = (binaries or release.binaries_folder()) / "kubectl"
        self._kubeconfig = kubeconfig

    def __call__(
        self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60.0
    ) -> str:
        """What the command prints; `KubectlError` when it fails or takes too long."""
        command = [str(self._program), f"--kubeconfig={self._kubeconfig}", *arguments]
        shown = f"kubectl {' '.join(arguments)}"
        try:
            done = subprocess.run(  # noqa: S603 - the program is one of the kit's own binaries
                command,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                timeout=timeout_seconds,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"'{shown}' did not end within {timeout_seconds:g} s") from error
        except subprocess.CalledProcessError as error:
            raise KubectlError(
                f"'{shown}' ended with code {error.returncode}: {error.stderr.strip()}"
            ) from error
        return done.stdout
