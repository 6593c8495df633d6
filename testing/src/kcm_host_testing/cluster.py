"""The command `python -m kcm_host_testing.cluster`: build the servers, find them, run them."""

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kcm_host_testing import build, release
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.process import ServerError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 when it failed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (build.BuildError, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kcm_host_testing.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    builder = commands.add_parser("build", help="build the four binaries that are missing")
    builder.set_defaults(run=_build)
    finder = commands.add_parser("path", help="print the folder of the binaries")
    finder.set_defaults(run=_path)
    runner = commands.add_parser("up", help="run etcd and an API server until Ctrl-C")
    runner.add_argument("--kubeconfig", type=Path, help="also write the kubeconfig to this file")
    runner.set_defaults(run=_up)
    return parser


def _build(_: argparse.Namespace) -> int:
    build.ensure()
    return 0


def _path(_: argparse.Namespace) -> int:
    sys.stdout.write(f"{release.binaries_folder()}\n")
    missing = release.missing_binaries()
    if missing:
        sys.stderr.write(f"not built yet: {', '.join(missing)}; run 'build' first\n")
    return 1 if missing else 0


def _up(options: argparse.Namespace) -> int:
    folder = build.ensure()
    signal.signal(signal.SIGTERM, _interrupt)
    with Etcd(binaries=folder) as etcd, ApiServer(etcd, binaries=folder) as server:
        path = server.kubeconfig()
        if options.kubeconfig:
            path = Path(shutil.copy(path, options.kubeconfig))
        sys.stdout.write(_usage_text(server, path, folder))
        sys.stdout.flush()
        try:
            _wait_for_end(server)
        except KeyboardInterrupt:
            sys.stdout.write("stopping\n")
    return 0


def _wait_for_end(server: ApiServer) -> None:
    while server.running:
        time.sleep(0.5)
    raise ServerError(f"kube-apiserver ended by itself; its last lines:\n{server.log_tail()}")


def _usage_text(server: ApiServer, path: Path, folder: Path) -> str:
    return (
        f"API server {release.kubernetes_version()} at {server.url}\n"
        f"{path}\n"
        f"\n  export KUBECONFIG={path}\n  {folder / 'kubectl'} get namespaces\n"
        "\nthere is no scheduler, no kubelet and no controller; Ctrl-C ends it and its data\n"
    )


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
