"""What the HTTP endpoints answer, asked over real connections."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from host.observe.conftest import Blocker, LoopThread

from kcm_host.api.hooks import Metric
from kcm_host.observe.endpoints import AddressUnusable, Endpoints
from kcm_host.observe.metrics import Metrics
from kcm_host.observe.states import Detail, HostState
from kcm_host.observe.watchdog import Watchdog

PLUGINS = {"acme_loops": "acme"}


def get(
    endpoints: Endpoints, path: str, method: str = "GET"
) -> tuple[int, str, http.client.HTTPMessage]:
    """Request an endpoint and return status, body and headers."""
    connection = http.client.HTTPConnection(endpoints.address, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


@contextmanager
def serving(
    loop_thread: LoopThread, host_state: Callable[..., HostState], **options: Any
) -> Iterator[Endpoints]:
    """Serve endpoints of a host at a free port, with a watchdog over its loop."""
    watchdog = Watchdog(loop_thread.loop, plugins=PLUGINS, limit_seconds=0.3, check_seconds=0.02)
    loop_thread.call(watchdog.start)
    bind = options.pop("bind", "127.0.0.1:0")
    endpoints = Endpoints(
        bind,
        loop=loop_thread.loop,
        host_state=host_state,
        watchdog=watchdog,
        metrics=Metrics(),
        **options,
    )
    try:
        endpoints.start()
        yield endpoints
    finally:
        endpoints.stop()
        watchdog.stop()


@pytest.fixture
def endpoints(loop_thread: LoopThread, state: HostState) -> Iterator[Endpoints]:
    """Serve a host that is ready."""
    with serving(loop_thread, lambda _: state) as endpoints:
        yield endpoints


@pytest.fixture
def unready_endpoints(loop_thread: LoopThread, unready: HostState) -> Iterator[Endpoints]:
    """Serve a host that is not ready."""
    with serving(loop_thread, lambda _: unready) as endpoints:
        yield endpoints


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_healthy_host_says_ok(endpoints: Endpoints, path: str) -> None:
    """Both health endpoints are 200 with `ok` and no line end, as plain text (H-80)."""
    status, body, headers = get(endpoints, path)
    assert (status, body) == (200, "ok")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


def test_readyz_gives_the_reason_of_each_unready_controller(unready_endpoints: Endpoints) -> None:
    """An unready host is 503 with a line for each controller that is not ready, and why."""
    status, body, _ = get(unready_endpoints, "/readyz")
    assert status == 503
    assert body.splitlines() == [
        "[-]resourcequota failed: starting, waits for pods: 403 Forbidden",
        "[-]acme failed: import failed: no module 'x'",
        "readyz check failed",
    ]


def test_readyz_verbose_shows_ready_controllers_too(
    endpoints: Endpoints, unready_endpoints: Endpoints
) -> None:
    """With `?verbose` every controller has its line, ready or not."""
    assert get(endpoints, "/readyz?verbose")[:2] == (200, "[+]ttl ok\nreadyz check passed\n")
    status, body, _ = get(unready_endpoints, "/readyz?verbose")
    assert status == 503
    assert body.startswith("[+]ttl ok\n[-]resourcequota failed")


def test_unready_host_without_unready_controllers_says_so(
    loop_thread: LoopThread, state: HostState
) -> None:
    """A host that is not ready for a reason of its own is 503 all the same."""
    alone = msgspec.structs.replace(state, ready=False)
    with serving(loop_thread, lambda _: alone) as endpoints:
        assert get(endpoints, "/readyz")[:2] == (503, "readyz check failed\n")


def test_status_is_json_with_camel_case_names(endpoints: Endpoints) -> None:
    """The names of the state are camelCase as in the config file; keys of a plugin stay its own."""
    status, body, headers = get(endpoints, "/status")
    shown = json.loads(body)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert shown["uptimeSeconds"] == 12.5
    assert shown["controllers"][0]["queue"]["longestSeconds"] == 1.5
    assert shown["controllers"][0]["status"] == {"boundary_nodes": 100}
    assert shown["streams"][0]["resourceVersion"] == "123456789012345678"


def test_status_of_a_plugin_may_hold_more_than_json(
    loop_thread: LoopThread, state: HostState
) -> None:
    """A plugin's status that JSON cannot hold is shown as text, and breaks no response."""
    odd = msgspec.structs.replace(state.controllers[0], status={"kinds": {1j}, "loop": print})
    with serving(
        loop_thread, lambda _: msgspec.structs.replace(state, controllers=(odd,))
    ) as endpoints:
        shown = json.loads(get(endpoints, "/status")[1])["controllers"][0]["status"]
    assert shown == {"kinds": ["1j"], "loop": "<built-in function print>"}


def test_metrics_are_prometheus_text(endpoints: Endpoints) -> None:
    """The metrics response has the content type, with version, that Prometheus asks for."""
    status, body, headers = get(endpoints, "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'workqueue_depth{name="ttlcontroller"} 2.0' in body


def test_metrics_hooks_are_called_on_the_loop(loop_thread: LoopThread, state: HostState) -> None:
    """Each scrape asks each controller, in the thread of the event loop; other endpoints do not."""
    threads: list[int] = []

    def ask() -> list[Metric]:
        threads.append(threading.get_ident())
        return [
            Metric(name="acme_claims", help="Claims.", type="gauge", series=(({}, len(threads)),))
        ]

    with serving(loop_thread, lambda _: state, plugin_metrics=lambda: {"acme": ask}) as endpoints:
        get(endpoints, "/status")
        assert "acme_claims 1.0" in get(endpoints, "/metrics")[1]
        assert "acme_claims 2.0" in get(endpoints, "/metrics")[1]
        loop_thread.call(lambda: threads.append(threading.get_ident()))
    assert len(threads) == 3
    assert len(set(threads)) == 1


def test_each_endpoint_reads_what_it_needs(loop_thread: LoopThread, state: HostState) -> None:
    """Probes and scrapes do not pay for what `/status` shows (F-40)."""
    asked: list[Detail] = []

    def host_state(detail: Detail) -> HostState:
        asked.append(detail)
        return state

    with serving(loop_thread, host_state) as endpoints:
        for path in ("/livez", "/readyz", "/readyz?verbose", "/metrics", "/status"):
            assert get(endpoints, path)[0] == 200
    assert asked == [Detail.READINESS, Detail.READINESS, Detail.METRICS, Detail.STATUS]


def test_root_lists_the_endpoints(endpoints: Endpoints) -> None:
    """The root names the others."""
    status, body, _ = get(endpoints, "/")
    assert status == 200
    assert all(path in body for path in ("/livez", "/readyz", "/status", "/metrics"))


@pytest.mark.parametrize("path", ["/healthz", "/livez/ttl", "/statusz", "/../etc"])
def test_unknown_path_is_404(endpoints: Endpoints, path: str) -> None:
    """Paths are matched exactly (H-72)."""
    assert get(endpoints, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_refused(endpoints: Endpoints, method: str) -> None:
    """Nothing but GET and HEAD is answered: 405 with the methods that are allowed."""
    status, _, headers = get(endpoints, "/livez", method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_head_is_get_without_a_body(endpoints: Endpoints) -> None:
    """HEAD gives the headers of GET, the length included, and no body."""
    status, body, headers = get(endpoints, "/livez", "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, "", "2")


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/nowhere"])
def test_nothing_is_cached_or_sniffed(endpoints: Endpoints, path: str) -> None:
    """Every response forbids caching and guessing of types (H-70)."""
    headers = get(endpoints, path)[2]
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/readyz", "/status", "/metrics"])
def test_blocked_loop_makes_its_endpoints_503(
    loop_thread: LoopThread, state: HostState, blocker: Blocker, path: str
) -> None:
    """While a plugin blocks the loop, endpoints that need it are 503 with that reason."""
    with serving(loop_thread, lambda _: state, call_seconds=0.1) as endpoints:
        blocker.block(loop_thread)
        status, body, _ = get(endpoints, path)
        assert status == 503
        assert body.startswith("the event loop ")
        loop_thread.until(lambda: "controller 'acme' blocks it" in get(endpoints, path)[1])
        blocker.released.set()
        loop_thread.until(lambda: get(endpoints, path)[0] == 200)


def test_livez_answers_while_the_loop_is_blocked(
    loop_thread: LoopThread, state: HostState, blocker: Blocker
) -> None:
    """A short stall is no failure: `/livez` stays 200 during it."""
    with serving(loop_thread, lambda _: state) as endpoints:
        blocker.block(loop_thread)
        assert get(endpoints, "/livez")[0] == 200
        blocker.released.set()


def test_livez_fails_when_a_plugin_blocks_for_too_long(
    loop_thread: LoopThread, state: HostState, blocker: Blocker
) -> None:
    """A stall beyond the limit is 500 and names the controller; afterwards it is 200 again."""
    with serving(loop_thread, lambda _: state, dead_seconds=0.5) as endpoints:
        blocker.block(loop_thread)
        loop_thread.until(lambda: get(endpoints, "/livez")[0] == 500)
        assert "controller 'acme' blocks it" in get(endpoints, "/livez")[1]
        blocker.released.set()
        loop_thread.until(lambda: get(endpoints, "/livez")[0] == 200)


def test_failing_state_is_a_500_that_is_logged_once(
    loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Each response of an endpoint that raises has the reason; it is logged once."""

    def broken(_: Detail) -> HostState:
        raise KeyError("nodes")

    with serving(loop_thread, broken) as endpoints:
        for _ in range(2):
            assert get(endpoints, "/status")[:2] == (
                500,
                "this endpoint failed: KeyError: 'nodes'\n",
            )
    assert [record.getMessage() for record in caplog.records].count("endpoint failed") == 1


def test_address_in_use_is_an_error_with_a_remedy(
    loop_thread: LoopThread, state: HostState
) -> None:
    """A taken port is an error that names the address and the setting to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        complaint = (
            f"endpoints cannot be served at '{bind}': it is in use; set http.bind to .*port 0"
        )
        with (
            pytest.raises(AddressUnusable, match=complaint),
            serving(loop_thread, lambda _: state, bind=bind),
        ):
            pass


@pytest.mark.parametrize(
    ("bind", "fact"),
    [
        pytest.param("10270", "not of the form host:port", id="no host"),
        pytest.param("127.0.0.1:http", "not of the form host:port", id="no number"),
        pytest.param("127.0.0.1:70000", "not of the form host:port", id="no such port"),
        pytest.param("192.0.2.1:0", "no interface of this machine", id="foreign address"),
    ],
)
def test_unusable_address_is_an_error(
    loop_thread: LoopThread, state: HostState, bind: str, fact: str
) -> None:
    """An address that cannot be bound is an error that says what is wrong with it."""
    with (
        pytest.raises(AddressUnusable, match=fact),
        serving(loop_thread, lambda _: state, bind=bind),
    ):
        pass


def test_ipv6_address_can_be_bound(loop_thread: LoopThread, state: HostState) -> None:
    """`[::1]:0` is served, and shown in brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with serving(loop_thread, lambda _: state, bind="[::1]:0") as endpoints:
        assert endpoints.address.startswith("[::1]:")
        connection = http.client.HTTPConnection("::1", int(endpoints.address.rpartition(":")[2]))
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok"
        connection.close()


def test_stop_does_not_wait_for_a_blocked_loop(
    loop_thread: LoopThread, state: HostState, blocker: Blocker
) -> None:
    """Stopping while the loop is blocked cancels pending calls and leaves no thread behind."""
    asked: list[tuple[int, str]] = []
    with serving(loop_thread, lambda _: state, call_seconds=60) as endpoints:
        blocker.block(loop_thread)
        client = threading.Thread(target=lambda: asked.append(get(endpoints, "/readyz")[:2]))
        client.start()
        loop_thread.until(lambda: endpoints._bridge.pending)
        endpoints.stop()
        client.join()
        assert "kcm-host-endpoints" not in {thread.name for thread in threading.enumerate()}
    assert endpoints.address == ""


def test_idle_client_does_not_delay_the_stop(loop_thread: LoopThread, state: HostState) -> None:
    """A connection without a request is aborted at the stop."""
    with serving(loop_thread, lambda _: state) as endpoints:
        host, _, port = endpoints.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            loop_thread.until(lambda: endpoints.connections)
            endpoints.stop()
            assert silent.recv(1) == b""
