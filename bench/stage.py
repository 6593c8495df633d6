"""The place where one candidate is measured: an etcd and an API server of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.calls import Calls
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd


@dataclass(frozen=True, slots=True)
class Stage:
    """Real servers that nobody else uses, and the bench's own connections to them."""

    etcd: Etcd
    server: ApiServer
    calls: Calls

    @property
    def pids(self) -> tuple[int, int]:
        """The processes whose work belongs to the measurement."""
        return self.etcd.pid, self.server.pid


@contextmanager
def fresh_stage() -> Iterator[Stage]:
    """Start a stage with nothing on it but what the API server itself creates; about 3 s."""
    with Etcd() as etcd, ApiServer(etcd) as server, Calls(server) as calls:
        yield Stage(etcd, server, calls)
