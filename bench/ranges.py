"""ServiceCIDRs, and thousands of Services with an address in them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.calls import NAMES_ONLY, Call, Refused
from bench.clones import Pattern, new_uid, put, stored
from bench.outcome import require
from bench.stage import Stage

API = "/apis/networking.k8s.io/v1"
RANGES = f"{API}/servicecidrs"
ADDRESSES = f"{API}/ipaddresses"
NAMESPACE = "default"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
USED_EACH = 66
# The API server learns of a new range through a watch before it gives addresses out of it.
PATIENCE_SECONDS = 10.0
# Three digits everywhere: an address and its copy must be equally long.
FIRST, PARTS = 100, 100


def cidr(number: int) -> str:
    """Return the range with this number."""
    return f"{_network(number)}.0/24"


def addresses(number: int) -> Sequence[str]:
    """Return the addresses that are used in the range with this number."""
    return [f"{_network(number)}.{host}" for host in range(FIRST, FIRST + USED_EACH)]


def _network(number: int) -> str:
    return f"10.{FIRST + number // PARTS}.{FIRST + number % PARTS}"


def create_ranges(stage: Stage, cidrs: Mapping[str, str]) -> None:
    """Create ServiceCIDRs by name."""
    stage.calls.all(
        [
            Call("POST", RANGES, {"metadata": {"name": name}, "spec": {"cidrs": [cidr]}})
            for name, cidr in cidrs.items()
        ]
    )


def create_services(stage: Stage, used: Sequence[str]) -> None:
    """
    Put a Service and its IPAddress on the stage for each of these addresses.

    The API server makes the first pair; the others are copies, put into etcd while it is away.
    Were it there, it would meet an address before its Service, or the other way round, and
    repair that.
    """
    first = used[0]
    uid = _create_service(stage, first)["metadata"]["uid"]
    address = stage.calls.one(Call("GET", f"{ADDRESSES}/{first}"))
    address_uid = address["metadata"]["uid"]
    service = stored(stage.etcd, f"/{NAMESPACE}/{_service(first)}")
    taken = stored(stage.etcd, f"/ipaddresses/{first}")
    stage.calls.reconnect()
    stage.server.stop()
    put(stage.etcd, (_copied(service, first, uid, address=each) for each in used[1:]))
    put(stage.etcd, (_copied(taken, first, address_uid, address=each) for each in used[1:]))
    stage.server.start()


def _create_service(stage: Stage, address: str) -> Any:
    body = {
        "metadata": {"name": _service(address)},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    }
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return stage.calls.one(Call("POST", SERVICES, body))
        except Refused:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _copied(pattern: Pattern, first: str, uid: str, address: str) -> Pattern:
    replaced = {_service(first): _service(address), first: address, uid: new_uid()}
    return pattern.copied(replaced)


def _service(address: str) -> str:
    return f"service-{address.replace('.', '-')}"


def delete_ranges(stage: Stage, names: Sequence[str]) -> None:
    """Delete ServiceCIDRs; they stay until their finalizer is removed."""
    stage.calls.all([Call("DELETE", f"{RANGES}/{name}") for name in names])


def require_addresses(stage: Stage, count: int, *, who: str) -> None:
    """Raise `WrongOutcome` unless so many addresses are used, beside the API server's own."""
    listed = stage.calls.one(Call("GET", ADDRESSES, accept=NAMES_ONLY))["items"]
    require(len(listed) == count + 1, f"{who}: {len(listed) - 1} addresses are used, not {count}")


def ready(range_: Mapping[str, Any]) -> str:
    """Return the status of its condition Ready, or nothing."""
    conditions = range_.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")
