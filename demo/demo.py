"""Shows the host at work: a real API server, five controllers, and what they do to objects."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aggregation
import claims
import quotas
import ranges
import ttl
from rich.table import Table
from telling import console, step, wait_for

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd

CONFIG = """\
controllers:
  ttl: {}
  clusterrole-aggregation: {}
  servicecidrs: {}
  resourceclaim: {}
  resourcequota: {}
leaderElection: {enabled: false}
http: {bind: 127.0.0.1:0}
"""


def main() -> int:
    """Run the whole demonstration; 130 after Ctrl-C, with everything ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory(prefix="kcm-host-demo-") as folder:
            show(Path(folder))
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything is ended and removed")
        return 130
    console.print("[dim]host, API server and etcd are ended, their files are removed[/]")
    return 0


def show(folder: Path) -> None:
    """Start everything, change objects, and print what the controllers made of it."""
    step("A real etcd and kube-apiserver start")
    with Etcd() as etcd, ApiServer(etcd) as server:
        console.print(f"  {server.url}")
        step("kcm-host starts with this config file")
        (folder / "kcm-host.yaml").write_text(CONFIG)
        console.print(CONFIG.rstrip(), style="cyan")
        with host(folder, server.kubeconfig()) as pages:
            api = server.client()
            for scene in (ttl, aggregation, ranges, claims, quotas):
                scene.play(api)
            report(pages)


@contextmanager
def host(folder: Path, kubeconfig: Path) -> Iterator[str]:
    """Run the real command, give the address of its pages, and end it with SIGTERM."""
    log = folder / "kcm-host.log"
    command = [sys.executable, "-m", "kcm_host", "run", "-c", "kcm-host.yaml"]
    with log.open("w") as stderr:
        # A group of its own: Ctrl-C is for this script, which then ends the host in order.
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig)],
            cwd=folder,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            yield wait_for(lambda: address_in(log, process))
        finally:
            process.send_signal(signal.SIGTERM)
            console.print(f"[dim]kcm-host ended with code {process.wait(timeout=30)}[/]")


def address_in(log: Path, process: "subprocess.Popen[bytes]") -> str | None:
    """Return the address of the host's pages once it has logged it."""
    text = log.read_text()
    if process.poll() is not None:
        raise SystemExit(f"kcm-host ended early:\n{text}")
    _, _, rest = text.partition("address=")
    return rest.split()[0] if rest else None


def report(pages: str) -> None:
    """Print what the host says of itself."""
    step(f"The host tells about itself: {pages}/status")
    with urllib.request.urlopen(f"{pages}/status", timeout=5) as answer:
        status: dict[str, Any] = json.load(answer)
    table = Table(box=None, header_style="bold")
    for column in ("controller", "ready", "syncs", "errors", "status"):
        table.add_column(column)
    for one in status["controllers"]:
        ready = "[green]yes[/]" if one["ready"] else "[red]no[/]"
        table.add_row(
            one["name"], ready, str(one["syncs"]), str(one["errors"]), json.dumps(one["status"])
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
