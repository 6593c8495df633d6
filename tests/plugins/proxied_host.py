"""A host with one controller, behind a proxy that records its requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy


@contextmanager
def proxied_host(
    server: ApiServer, controller: str, *, user: str = "admin", **settings: Any
) -> Iterator[tuple[FaultProxy, RunningHost]]:
    """Run a host with one controller alone, as this user; yield its proxy and the host."""
    own = {"settings": settings} if settings else {}
    with (
        FaultProxy(server) as proxy,
        RunningHost({"controllers": {controller: own}}, kubeconfig=proxy.kubeconfig(user)) as host,
    ):
        yield proxy, host
