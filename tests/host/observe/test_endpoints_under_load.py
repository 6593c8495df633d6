"""Clients that are slow, idle or many, and a process without file descriptors."""

import contextlib
import os
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest
from host.observe.conftest import Blocker, LoopThread, Serve
from host.observe.test_endpoints import get

from kcm_host.observe.endpoints import Endpoints
from kcm_host.observe.http_server import LIMITS, Limits
from kcm_host.observe.states import HostState

DEADLINE_SECONDS = 60.0
PATIENT = Limits(request_seconds=600)
OTHER_PEERS = [f"127.0.0.{number}" for number in range(2, 12)]


def connect(endpoints: Endpoints, source: str = "127.0.0.1") -> socket.socket:
    """Connect to the endpoints from a loopback address."""
    host, _, port = endpoints.address.rpartition(":")
    client = socket.create_connection(
        (host, int(port)), timeout=DEADLINE_SECONDS, source_address=(source, 0)
    )
    client.settimeout(DEADLINE_SECONDS)
    return client


@contextlib.contextmanager
def silent(
    endpoints: Endpoints, count: int, source: str = "127.0.0.1"
) -> Iterator[list[socket.socket]]:
    """Return so many connections without a request."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(endpoints, source)) for _ in range(count)]


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed a connection that has nothing to read."""
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_head_that_never_ends_is_aborted(serve: Serve, loop_thread: LoopThread) -> None:
    """A client that goes on sending its head is closed at the deadline all the same (F-15)."""
    with (
        serve(limits=Limits(request_seconds=0.2)) as endpoints,
        connect(endpoints) as slow,
    ):
        slow.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        end = time.monotonic() + DEADLINE_SECONDS
        while not is_closed(slow):
            assert time.monotonic() < end
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.send(b"x")
            time.sleep(0.01)
        loop_thread.until(lambda: endpoints.connections == 0)


def test_response_that_nobody_reads_is_aborted(
    serve: Serve, loop_thread: LoopThread, state: HostState
) -> None:
    """A client that does not read a large response is aborted at the deadline (F-15)."""
    huge = msgspec.structs.replace(
        state.controllers[0], status={"text": "x" * 30_000_000, "controller": "ttl"}
    )
    whole = msgspec.structs.replace(state, controllers=(huge,))
    with (
        serve(lambda _: whole, limits=Limits(request_seconds=2.0)) as endpoints,
        connect(endpoints) as lazy,
    ):
        lazy.sendall(b"GET /status HTTP/1.1\r\n\r\n")
        assert lazy.recv(1) == b"H"
        loop_thread.until(lambda: endpoints.connections == 0)


def test_idle_clients_do_not_block_a_probe(serve: Serve, loop_thread: LoopThread) -> None:
    """A probe has a response in spite of many idle connections, also of its address (F-15)."""
    with (
        serve(limits=PATIENT) as endpoints,
        silent(endpoints, 2 * LIMITS.connections) as clients,
    ):
        assert get(endpoints, "/livez")[:2] == (200, "ok")
        loop_thread.until(lambda: is_closed(clients[0]))
        assert not is_closed(clients[-1])
        assert endpoints.connections <= LIMITS.connections_per_peer


def test_one_address_does_not_evict_others(serve: Serve, loop_thread: LoopThread) -> None:
    """Connections beyond the limit of an address close older ones of that address alone (F-15)."""
    with (
        serve(limits=PATIENT) as endpoints,
        connect(endpoints) as honest,
        silent(endpoints, 2 * LIMITS.connections, OTHER_PEERS[0]) as clients,
    ):
        loop_thread.until(lambda: is_closed(clients[LIMITS.connections]))
        honest.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert honest.recv(15) == b"HTTP/1.1 200 OK"


def test_all_addresses_together_are_limited(serve: Serve, loop_thread: LoopThread) -> None:
    """Many addresses share one limit, and a probe has a response (F-15)."""
    with serve(limits=PATIENT) as endpoints, ExitStack() as held:
        for peer in OTHER_PEERS:
            held.enter_context(silent(endpoints, LIMITS.connections_per_peer, peer))
        assert get(endpoints, "/livez")[0] == 200
        loop_thread.until(
            lambda: endpoints.connections in range(LIMITS.connections - 1, LIMITS.connections + 1)
        )


def test_without_file_descriptors_accepting_pauses(
    serve: Serve, loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Out of descriptors, accepting pauses instead of spinning, and goes on afterwards (F-15)."""
    caplog.set_level("DEBUG")

    def failed() -> list[str]:
        return [one.levelname for one in caplog.records if "not accepting" in one.getMessage()]

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serve() as endpoints, ExitStack() as stack:
        host, _, port = endpoints.address.rpartition(":")
        client = stack.enter_context(socket.socket())
        client.settimeout(DEADLINE_SECONDS)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            client.connect((host, int(port)))
            client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
            loop_thread.until(failed)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert client.recv(15) == b"HTTP/1.1 200 OK"
    assert failed()[0] == "WARNING"
    assert "WARNING" not in failed()[1:]
    assert len(failed()) <= 3


def test_post_with_a_body_gets_its_response(serve: Serve) -> None:
    """Data after the head does not reset the connection before the response (F-15)."""
    with serve() as endpoints, connect(endpoints) as client:
        client.sendall(b"POST /livez HTTP/1.1\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30_000)
        assert client.recv(12) == b"HTTP/1.1 405"


def test_stop_sends_a_pending_response(
    serve: Serve, loop_thread: LoopThread, blocker: Blocker
) -> None:
    """A request that waits for the loop at the stop gets the reason; no thread is left (F-15)."""
    with serve() as endpoints, connect(endpoints) as client:
        blocker.block(loop_thread)
        client.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        loop_thread.until(lambda: endpoints._bridge.pending)
        endpoints.stop()
        answer = b"".join(iter(lambda: client.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 503")
        assert answer.endswith(b"the host is stopping\n")
        assert "kcm-host-endpoints" not in {thread.name for thread in threading.enumerate()}
        assert endpoints.address == ""


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"GET http://kcm.example/livez?x=%zz HTTP/1.1\r\n\r\n", 200, id="absolute"),
        pytest.param(b"GET http://kcm.example HTTP/1.1\r\n\r\n", 200, id="absolute, no path"),
        pytest.param(b"\r\n\r\nGET /livez HTTP/1.1\r\n\r\n", 200, id="empty lines before"),
        pytest.param(b"GET /livez HTTP/1.0\n\n", 200, id="bare line ends"),
        pytest.param(b"GET /livez#top HTTP/1.1\r\n\r\n", 200, id="fragment"),
        pytest.param(b"GET /readyz?a=%ff&verbose HTTP/1.1\r\n\r\n", 200, id="bad percent"),
        pytest.param(b"GET /livez HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\n\r\n", 200, id="pipelined"),
        pytest.param(b"GET //livez HTTP/1.1\r\n\r\n", 404, id="two slashes"),
        pytest.param(b"GET http://[::1/livez HTTP/1.1\r\n\r\n", 200, id="odd authority"),
        pytest.param(b"GET livez HTTP/1.1\r\n\r\n", 400, id="relative"),
        pytest.param(b"GET /livez\r\n\r\n", 400, id="no version"),
        pytest.param(b"GET  /livez HTTP/1.1\r\n\r\n", 400, id="two blanks"),
        pytest.param(b"\x16\x03\x01\x02\x00", 400, id="TLS"),
        pytest.param(b"OPTIONS * HTTP/1.1\r\n\r\n", 405, id="options"),
        pytest.param(b"GET /livez HTTP/2.0\r\n\r\n", 505, id="other version"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000, 431, id="huge head"),
    ],
)
def test_odd_requests_have_a_response(serve: Serve, head: bytes, status: int) -> None:
    """Whatever is sent gets the status that fits it."""
    with serve() as endpoints, connect(endpoints) as client:
        client.sendall(head)
        assert client.recv(12) == f"HTTP/1.1 {status}".encode()
