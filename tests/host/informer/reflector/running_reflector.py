"""A reflector behind a fault proxy, with a handler that records its changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from kubernetes import client as kubernetes

from kcm_host.api.kinds import Kind
from kcm_host.api.watch import Change
from kcm_host.client.rest import Client, user_agent_of
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host.informer.reflector import Reflector
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host.informer.store import Store
from kcm_host.observe.states import RequestRecord
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import Request
from kcm_host_testing.proxy import FaultProxy

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")
STREAMING = {"sendInitialEvents": "true"}
DEADLINE_SECONDS = 60.0


class ConfigMap(msgspec.Struct, frozen=True):
    """What the reader reads of a ConfigMap."""

    data: dict[str, str] = {}


async def until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail the test when it is not in time."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - the server has no event for us
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not true within {DEADLINE_SECONDS:g} s") from None


def status(code: int, reason: str = "", *, cause: str = "") -> bytes:
    """Return the body of an error answer."""
    details = {"causes": [{"reason": cause}]} if cause else {}
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "made by a test"}
    return json.dumps({**told, "reason": reason, "code": code, "details": details}).encode()


def event(kind: str, told: dict[str, Any]) -> bytes:
    """Return one line of a watch, without its end."""
    return json.dumps({"type": kind, "object": told}).encode()


def error_event(code: int, reason: str = "") -> bytes:
    """Return a ERROR event."""
    return event("ERROR", json.loads(status(code, reason)))


class RecordingHandler:
    """An event handler that records every change."""

    def __init__(self) -> None:
        self.changes: list[Change[Any]] = []
        self.times_synced = 0

    def on_change(self, change: Change[Any]) -> None:
        """Keep it."""
        self.changes.append(change)

    def on_synced(self) -> None:
        """Count it."""
        self.times_synced += 1

    @property
    def seen(self) -> list[str]:
        """The changes as words: `+a` came, `~a` changed, `-a` went."""
        return [f"{_sign(change)}{change.key.name}" for change in self.changes]


def _sign(change: Change[Any]) -> str:
    if change.old is None:
        return "+"
    return "-" if change.new is None else "~"


class RunningReflector:
    """A reflector, its informer and a recording event handler."""

    def __init__(self, client: Client, options: ListWatchOptions, proxy: FaultProxy) -> None:
        self.informer = SharedInformer(options.kind)
        self.handler = RecordingHandler()
        self.informer.add_event_handler(ConfigMap, self.handler)
        self.options = options
        self.records: list[RequestRecord] = []
        self.reflector = Reflector(
            options,
            client,
            self.informer,
            user_agent=user_agent_of("test"),
            clock=asyncio.get_running_loop().time,
        )
        self._proxy = proxy
        self._task = asyncio.create_task(self.reflector.run())

    @property
    def store(self) -> Store[Any]:
        """The store of the handler."""
        return self.informer.typed_informer(ConfigMap).store

    @property
    def seen(self) -> list[str]:
        """The changes that the handler got, in order."""
        return self.handler.seen

    @property
    def requests(self) -> list[Request]:
        """All requests of the reflector so far."""
        return self._proxy.requests(path=f"{self.options.path}$", when=_is_ours)

    @property
    def request_kinds(self) -> list[str]:
        """Those requests in one word each: `stream`, `list` or `watch`."""
        return [_request_kind(request) for request in self.requests]

    async def synced(self) -> None:
        """Wait for the first complete set."""
        await until(lambda: self.handler.times_synced)

    async def wait_for_changes(self, *words: str) -> None:
        """Wait until the handler got all these."""
        await until(lambda: set(words) <= set(self.seen))

    async def wait_for_requests(self, count: int) -> None:
        """Wait until there were so many requests."""
        await until(lambda: len(self.requests) >= count)

    async def stop(self) -> None:
        """End the reflector."""
        self._task.cancel()
        await asyncio.wait({self._task})


def _is_ours(request: Request) -> bool:
    return request.method == "GET" and request.user_agent == user_agent_of("test")


def _request_kind(request: Request) -> str:
    if not request.watch:
        return "list"
    return "stream" if "sendInitialEvents" in request.query else "watch"


StartReflector = Callable[..., Awaitable[RunningReflector]]


class ConfigMaps:
    """The ConfigMaps of one namespace, changed without the proxy."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.namespace = namespace
        self._core: Any = kubernetes.CoreV1Api(server.client())

    async def create(self, *names: str, labels: dict[str, str] | None = None) -> str:
        """Create some and give the version of the last."""
        version = ""
        for name in names:
            metadata = {"name": name, "labels": labels or {}}
            made = await asyncio.to_thread(
                self._core.create_namespaced_config_map,
                self.namespace,
                {"metadata": metadata, "data": {"n": "0"}},
            )
            version = made.metadata.resource_version
        return version

    async def change(self, name: str, value: str) -> str:
        """Change the data of one and give its new version."""
        body = {"data": {"n": value}}
        made = await asyncio.to_thread(
            self._core.patch_namespaced_config_map, name, self.namespace, body
        )
        return str(made.metadata.resource_version)

    async def delete(self, name: str) -> None:
        """Delete one."""
        await asyncio.to_thread(self._core.delete_namespaced_config_map, name, self.namespace)

    async def relabel(self, name: str, labels: dict[str, str]) -> None:
        """Return one other labels."""
        body = {"metadata": {"labels": labels}}
        await asyncio.to_thread(self._core.patch_namespaced_config_map, name, self.namespace, body)
