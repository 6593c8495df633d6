"""A host's state to show, and an event loop in a thread of its own to be blocked."""

import asyncio
import importlib.util
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from host.observe.collector import Collector

from kcm_host.observe.endpoints import Endpoints
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.states import (
    ControllerState,
    FailingKey,
    HostState,
    QueueState,
    StreamState,
)
from kcm_host.observe.watchdog import Watchdog

DEADLINE_SECONDS = 60.0

QUEUE = QueueState(
    depth=2,
    waiting=1,
    processing=1,
    adds=7,
    retries=3,
    unfinished_seconds=1.5,
    longest_seconds=1.5,
    failing={"n1": FailingKey(4, "409: Conflict")},
)
NODES = StreamState(
    group="",
    version="v1",
    resource="nodes",
    namespace="",
    label_selector="",
    field_selector="",
    metadata_only=True,
    phase="watching",
    synced=True,
    objects=12,
    resource_version="123456789012345678",
    lists=1,
    undecodable=("n9",),
    undecodable_count=1,
    controllers=("ttl",),
)
TTL = ControllerState(
    name="ttl",
    phase="running",
    ready=True,
    distribution="kcm-host-ttl",
    version="1.2.3",
    workers=5,
    queue_name="ttlcontroller",
    queue=QUEUE,
    status={"boundary_nodes": 100},
)
STATE = HostState(
    version="0.1.0",
    server="https://127.0.0.1:6443",
    uptime_seconds=12.5,
    ready=True,
    controllers=(TTL,),
    streams=(NODES,),
    tasks=7,
)


@pytest.fixture
def state() -> HostState:
    """Return a host with one controller, which is ready."""
    return STATE


@pytest.fixture
def unready() -> HostState:
    """Return a host of three controllers, two of which are not ready, each for its own reason."""
    quota = ControllerState(name="resourcequota", phase="starting", ready=False)
    broken = ControllerState(
        name="acme", phase="quarantined", ready=False, problem="import failed: no module 'x'"
    )
    pods = msgspec.structs.replace(
        NODES,
        resource="pods",
        synced=False,
        phase="failed",
        error="403 Forbidden",
        controllers=("resourcequota",),
    )
    return msgspec.structs.replace(
        STATE, ready=False, controllers=(TTL, quota, broken), streams=(NODES, pods)
    )


class LoopThread:
    """An event loop that runs in a thread of its own, and can be blocked for real."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop and wait until it has returned."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(function)
        self.loop.call_soon_threadsafe(done.set)
        assert done.wait(DEADLINE_SECONDS)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition of whatever thread; fail when it does not come true."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < end, "the awaited condition did not come true"
            time.sleep(0.005)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    """Return a running loop in another thread."""
    thread = LoopThread()
    yield thread
    thread.close()


class Blocker:
    """A plugin's function which blocks its caller until it is released."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.entered = threading.Event()
        self.released = threading.Event()

    def block(self, thread: LoopThread) -> None:
        """Block the loop and return when it is blocked."""
        thread.loop.call_soon_threadsafe(self._module.slow, self.entered, self.released)
        assert self.entered.wait(DEADLINE_SECONDS)


@pytest.fixture
def blocker(tmp_path: Path) -> Iterator[Blocker]:
    """Return a plugin of the package `acme_loops` that can block the loop; it ends by itself."""
    source = """
        def slow(entered, released):
            entered.set()
            released.wait(30)
    """
    path = tmp_path / "acme_loops.py"
    path.write_text(textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location("acme_loops.loop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    blocker = Blocker(module)
    yield blocker
    blocker.released.set()


Serve = Callable[..., AbstractContextManager[Endpoints]]
PLUGINS = {"acme_loops": "acme"}


@pytest.fixture
def serve(loop_thread: LoopThread, state: HostState) -> Serve:
    """Serve endpoints at a free port, those of a ready host or of another one."""

    @contextmanager
    def serving(
        host_state: Callable[..., HostState] = lambda _: state,
        *,
        bind: str = "127.0.0.1:0",
        **options: Any,
    ) -> Iterator[Endpoints]:
        loop = loop_thread.loop
        watchdog = Watchdog(loop, plugins=PLUGINS, limit_seconds=0.3, check_seconds=0.02)
        loop_thread.call(watchdog.start)
        own = {"watchdog": watchdog, "metrics": Metrics(), **options}
        endpoints = Endpoints(bind, loop=loop, host_state=host_state, **own)
        try:
            endpoints.start()
            yield endpoints
        finally:
            endpoints.stop()
            watchdog.stop()

    return serving


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Run a collector."""
    collector = Collector()
    yield collector
    collector.close()
