"""One API server with one side's controllers at work on it: started, stopped, waited for."""

import json
import time
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from parity.api import Api
from parity.controllers import CONTROLLERS
from parity.scenario import Cluster
from parity.side import Running, Side, TheReference
from parity.steps import Machine, Refuse

from kcm_host_testing import identity
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.audit import Entry
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy, Rule

#: How long the controllers rest before their work counts as done. Their own rests are 0.5 s at
#: most; after the server was away they may also be waiting to connect again.
QUIET_SECONDS = 1.0
QUIET_AFTER_OUTAGE_SECONDS = 2.5
PATIENCE_SECONDS = 120.0
#: How the API server calls these answers; clients go by it.
REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    415: "UnsupportedMediaType",
    422: "Invalid",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Stage:
    """A context manager: the server runs within it, the controllers from `start` to `stop`."""

    def __init__(
        self, etcd: Etcd, side: Side, controllers: tuple[str, ...], cluster: Cluster
    ) -> None:
        self.side = side
        self.server = ApiServer(etcd, **cluster.server)
        self._controllers = controllers
        self._cluster = cluster
        self._process: Running | None = None
        self._proxy: FaultProxy | None = None
        self._exits = ExitStack()
        self.api: Api

    def touch(self, event: Machine) -> None:
        """Do this to controllers or server, and wait until that is over."""
        match event:
            case Machine.START:
                self.start()
            case Machine.STOP:
                self._taken().stop()
            case Machine.KILL:
                self._taken().kill()
            case Machine.RESTART_SERVER:
                self._restart_server()
            case Machine.EXPIRE:
                self._expire()

    def start(self) -> None:
        """Start the controllers and return when they follow all they have to, and rest."""
        mark = self.server.audit.mark()
        self._process = self._described()
        self._process.start()
        self._wait_until_followed(mark)
        self.wait_until_quiet()

    def wait_until_quiet(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        """Return when the controllers have written nothing for a while; at once without them."""
        if self._process is None:
            return
        audit = self.server.audit
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            audit.wait_until_quiet(
                quiet_seconds,
                timeout_seconds=PATIENCE_SECONDS,
                user_agent=self.side.agent,
                since=audit.mark(),
            )
            if self._process.is_idle() or time.monotonic() > deadline:
                return

    def refuse(self, refuse: Refuse, path: str) -> Rule:
        """Answer the controllers' next writes to this path instead of the server."""
        if self._proxy is None:
            raise ValueError(f"'{refuse}' needs a cluster with proxied=True")
        return self._proxy.add(
            _refusal(refuse.status), method=refuse.method, path=f"^{path}$", times=refuse.times
        )

    def _restart_server(self) -> None:
        mark = self.server.audit.mark()
        self.server.stop()
        self.server.start()
        self._back(mark, first_version=0)

    def _expire(self) -> None:
        mark = self.server.audit.mark()
        self._back(mark, first_version=self.server.expire_history())

    def _back(self, mark: int, *, first_version: int) -> None:
        self.api.close()
        if self._process is not None:
            self._wait_until_followed(mark, first_version=first_version)
            self.wait_until_quiet(QUIET_AFTER_OUTAGE_SECONDS)

    def _wait_until_followed(self, mark: int, *, first_version: int = 0) -> None:
        known = [CONTROLLERS[name] for name in self._controllers]
        wanted = {resource for one in known for resource in one.follows}
        if self.side.name == TheReference.name:
            wanted |= {resource for one in known for resource in one.reference_follows}
        for resource in wanted:
            follows = partial(self._follows, resource, first_version)
            self.server.audit.wait_for(follows, since=mark, timeout_seconds=PATIENCE_SECONDS)

    def _follows(self, resource: str, first_version: int, entry: Entry) -> bool:
        """Return whether this begins a watch from now on, or from a version that is not too old."""
        if (entry.verb, entry.resource, entry.code) != ("watch", resource, 200):
            return False
        if entry.stage != "ResponseStarted" or not entry.user_agent.startswith(self.side.agent):
            return False
        query = parse_qs(urlsplit(entry.uri).query)
        whole = query.get("sendInitialEvents") == ["true"]
        return whole or int(query.get("resourceVersion", ["0"])[0] or 0) >= first_version

    def _described(self) -> Running:
        way = self._proxy or self.server
        kubeconfig = way.kubeconfig(identity.MANAGER)
        return self.side.running(self.server, kubeconfig, self._controllers, self._cluster)

    def _taken(self) -> Running:
        """Return the process and forget it: whatever comes of ending it, it is not ended twice."""
        if self._process is None:
            raise ValueError("the controllers do not run; a scenario starts them before it stops")
        process, self._process = self._process, None
        return process

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            exits.enter_context(self.server)
            self.api = exits.enter_context(Api(self.server))
            if self._cluster.proxied:
                self._proxy = exits.enter_context(FaultProxy(self.server))
            exits.callback(self._end)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exits.__exit__(kind, error, trace)

    def _end(self) -> None:
        if self._process is not None:
            self._taken().stop()


def _refusal(status: int) -> Answer:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": REASONS[status],
        "message": "refused by a scenario",
    }
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})
