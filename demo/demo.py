"""Shows the host at work: a real API server, both controllers, and what they do to objects."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubernetes import client as kube
from rich.console import Console
from rich.table import Table

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd

TTL = "node.alpha.kubernetes.io/ttl"
LABEL = "demo.kcm-host.example/aggregate-to-reader"
PATIENCE_SECONDS = 30
CONFIG = """\
controllers:
  ttl: {}
  clusterrole-aggregation: {}
leaderElection: {enabled: false}
http: {bind: 127.0.0.1:0}
"""

console = Console(highlight=False)


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
            demonstrate_ttl(kube.CoreV1Api(server.client()))
            demonstrate_aggregation(kube.RbacAuthorizationV1Api(server.client()))
            report(pages)


def demonstrate_ttl(core: kube.CoreV1Api) -> None:
    """Cross the boundary of 100 nodes."""
    step("ttl: three nodes appear; each is told to cache for 0 seconds")
    create_nodes(core, range(3))
    console.print(f"  {wait_for(lambda: ttl_of(core, nodes=3, value='0'))}")
    step("ttl: 98 more nodes appear; from 101 on, all are told 15 seconds")
    create_nodes(core, range(3, 101))
    console.print(f"  {wait_for(lambda: ttl_of(core, nodes=101, value='15'))}")


def demonstrate_aggregation(rbac: kube.RbacAuthorizationV1Api) -> None:
    """Aggregate two roles, then damage the result by hand."""
    step("clusterrole-aggregation: a role collects the rules of two labelled roles")
    rbac.create_cluster_role(
        {
            "metadata": {"name": "demo-reader"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {LABEL: "true"}}]},
        }
    )
    for resource in ("widgets", "gadgets"):
        rules = [{"apiGroups": ["demo.example"], "resources": [resource], "verbs": ["get"]}]
        metadata = {"name": f"demo-{resource}", "labels": {LABEL: "true"}}
        rbac.create_cluster_role({"metadata": metadata, "rules": rules})
    wanted = {"widgets", "gadgets"}
    console.print(f"  demo-reader may get {wait_for(lambda: resources_of(rbac, wanted))}")
    step("clusterrole-aggregation: somebody empties the role by hand; it is filled again")
    rbac.patch_cluster_role("demo-reader", {"rules": []})
    console.print(f"  demo-reader may get {wait_for(lambda: resources_of(rbac, wanted))}")


def create_nodes(core: kube.CoreV1Api, numbers: range) -> None:
    """Create nodes; there is no kubelet behind them."""
    for number in numbers:
        core.create_node({"metadata": {"name": f"node-{number:03}"}})


def ttl_of(core: kube.CoreV1Api, *, nodes: int, value: str) -> str | None:
    """Give the annotations once all nodes carry `value`."""
    found = Counter((node.metadata.annotations or {}).get(TTL) for node in core.list_node().items)
    return f"{nodes} nodes with {TTL}={value}" if found == {value: nodes} else None


def resources_of(rbac: kube.RbacAuthorizationV1Api, wanted: set[str]) -> str | None:
    """Give the resources of the aggregated role once it has the wanted ones."""
    rules = rbac.read_cluster_role("demo-reader").rules or []
    found = [resource for rule in rules for resource in rule.resources]
    return ", ".join(found) if set(found) == wanted else None


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
    """Give the address of the host's pages once it has logged it."""
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


def wait_for(question: Callable[[], str | None]) -> str:
    """Ask until there is an answer; a demonstration that hangs is a failure."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := question()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"not seen within {PATIENCE_SECONDS} s")
        time.sleep(0.05)
    return answer


def step(text: str) -> None:
    """Print the heading of the next step."""
    console.print(f"\n[bold]{text}[/]")


if __name__ == "__main__":
    sys.exit(main())
