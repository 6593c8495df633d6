"""The processor time of API server and etcd beside the candidates': whether they set the pace."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.machine import Span
from bench.stage import Stage
from bench.workload import Quantity, Unit

_API_SERVER, _ETCD = "API server CPU", "etcd CPU"


@dataclass(frozen=True, slots=True)
class ServersCpu:
    """The processor seconds of both servers in a span."""

    api_server: float
    etcd: float

    def named(self, title: str = "{}") -> Mapping[str, float]:
        """Return both by the names that `servers_quantities` gives them."""
        return {title.format(_API_SERVER): self.api_server, title.format(_ETCD): self.etcd}


def servers_cpu(stage: Stage, span: Span) -> ServersCpu:
    """Return what the servers of a stage have used since the span began."""
    return ServersCpu(span.used_by(stage.server.pid), span.used_by(stage.etcd.pid))


def servers_quantities(title: str = "{}") -> tuple[Quantity, Quantity]:
    """Return the quantities of both servers; `title` has `{}` where their names belong."""
    return (
        Quantity(title.format(_API_SERVER), Unit.SECONDS),
        Quantity(title.format(_ETCD), Unit.SECONDS),
    )
