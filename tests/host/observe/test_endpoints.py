"""What the HTTP endpoints answer, asked over real connections."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest
from host.observe.conftest import Blocker, LoopThread, Serve

from kcm_host.api.hooks import Metric
from kcm_host.observe.endpoints import AddressUnusable, Endpoints
from kcm_host.observe.states import Detail, HostState


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


@pytest.fixture
def endpoints(serve: Serve) -> Iterator[Endpoints]:
    """Serve a host that is ready."""
    with serve() as endpoints:
        yield endpoints


@pytest.fixture
def unready_endpoints(serve: Serve, unready: HostState) -> Iterator[Endpoints]:
    """Serve a host that is not ready."""
    with serve(lambda _: unready) as endpoints:
        yield endpoints


PLAIN = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("method", "path", "status", "sort", "beginning"),
    [
        ("GET", "/livez", 200, PLAIN, "ok"),
        ("GET", "/readyz", 200, PLAIN, "ok"),
        ("HEAD", "/livez", 200, PLAIN, ""),
        ("GET", "/metrics", 200, PROMETHEUS, "# HELP "),
        ("GET", "/healthz", 404, PLAIN, ""),
        ("GET", "/livez/ttl", 404, PLAIN, ""),
        ("GET", "/statusz", 404, PLAIN, ""),
        ("GET", "/../etc", 404, PLAIN, ""),
        ("POST", "/livez", 405, PLAIN, ""),
        ("OPTIONS", "/livez", 405, PLAIN, ""),
        ("BREW", "/livez", 405, PLAIN, ""),
    ],
)
def test_each_response_has_its_type(
    endpoints: Endpoints, method: str, path: str, status: int, sort: str, beginning: str
) -> None:
    """Paths are matched exactly; nothing is cached, no type is guessed (H-70, H-72, H-80)."""
    found, body, headers = get(endpoints, path, method)
    assert (found, headers["Content-Type"]) == (status, sort)
    assert body == "ok" if beginning == "ok" else body.startswith(beginning)
    assert int(headers["Content-Length"]) == (2 if method == "HEAD" else len(body))
    assert headers["Cache-Control"] == "no-cache, private"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Allow"] == ("GET, HEAD" if status == 405 else None)


def test_the_root_lists_the_endpoints(endpoints: Endpoints) -> None:
    """The root names the others."""
    body = get(endpoints, "/")[1]
    assert all(path in body for path in ("/livez", "/readyz", "/status", "/metrics"))


def test_an_unready_host_without_unready_controllers_says_so(
    serve: Serve, state: HostState
) -> None:
    """A host that is not ready for a reason of its own is 503 all the same."""
    alone = msgspec.structs.replace(state, ready=False)
    with serve(lambda _: alone) as endpoints:
        assert get(endpoints, "/readyz")[:2] == (503, "readyz check failed\n")


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


def test_status_of_a_plugin_may_hold_more_than_json(serve: Serve, state: HostState) -> None:
    """A plugin's status that JSON cannot hold is shown as text, and breaks no response."""
    odd = msgspec.structs.replace(state.controllers[0], status={"kinds": {1j}, "loop": print})
    whole = msgspec.structs.replace(state, controllers=(odd,))
    with serve(lambda _: whole) as endpoints:
        shown = json.loads(get(endpoints, "/status")[1])["controllers"][0]["status"]
    assert shown == {"kinds": ["1j"], "loop": "<built-in function print>"}


def test_metrics_hooks_are_called_on_the_loop(serve: Serve, loop_thread: LoopThread) -> None:
    """Each scrape asks each controller, in the thread of the event loop; other endpoints do not."""
    threads: list[int] = []

    def ask() -> list[Metric]:
        threads.append(threading.get_ident())
        return [
            Metric(name="acme_claims", help="Claims.", type="gauge", series=(({}, len(threads)),))
        ]

    with serve(plugin_metrics=lambda: {"acme": ask}) as endpoints:
        get(endpoints, "/status")
        assert "acme_claims 1.0" in get(endpoints, "/metrics")[1]
        assert "acme_claims 2.0" in get(endpoints, "/metrics")[1]
        loop_thread.call(lambda: threads.append(threading.get_ident()))
    assert len(threads) == 3
    assert len(set(threads)) == 1


def test_each_endpoint_reads_what_it_needs(serve: Serve, state: HostState) -> None:
    """Probes and scrapes do not pay for what `/status` shows (F-40)."""
    asked: list[Detail] = []

    def host_state(detail: Detail) -> HostState:
        asked.append(detail)
        return state

    with serve(host_state) as endpoints:
        for path in ("/livez", "/readyz", "/readyz?verbose", "/metrics", "/status"):
            assert get(endpoints, path)[0] == 200
    assert asked == [Detail.READINESS, Detail.READINESS, Detail.METRICS, Detail.STATUS]


@pytest.mark.parametrize("path", ["/readyz", "/status", "/metrics"])
def test_blocked_loop_makes_its_endpoints_503(
    serve: Serve, loop_thread: LoopThread, blocker: Blocker, path: str
) -> None:
    """While a plugin blocks the loop, endpoints that need it are 503 with that reason."""
    with serve(call_seconds=0.1) as endpoints:
        blocker.block(loop_thread)
        status, body, _ = get(endpoints, path)
        assert status == 503
        assert body.startswith("the event loop ")
        loop_thread.until(lambda: "controller 'acme' blocks it" in get(endpoints, path)[1])
        blocker.released.set()
        loop_thread.until(lambda: get(endpoints, path)[0] == 200)


def test_livez_answers_while_the_loop_is_blocked(
    serve: Serve, loop_thread: LoopThread, blocker: Blocker
) -> None:
    """A short stall is no failure: `/livez` stays 200 during it."""
    with serve() as endpoints:
        blocker.block(loop_thread)
        assert get(endpoints, "/livez")[0] == 200
        blocker.released.set()


def test_livez_fails_when_a_plugin_blocks_for_too_long(
    serve: Serve, loop_thread: LoopThread, blocker: Blocker
) -> None:
    """A stall beyond the limit is 500 and names the controller; afterwards it is 200 again."""
    with serve(dead_seconds=0.5) as endpoints:
        blocker.block(loop_thread)
        loop_thread.until(lambda: get(endpoints, "/livez")[0] == 500)
        assert "controller 'acme' blocks it" in get(endpoints, "/livez")[1]
        blocker.released.set()
        loop_thread.until(lambda: get(endpoints, "/livez")[0] == 200)


def test_failing_state_is_a_500_that_is_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Each response of an endpoint that raises has the reason; it is logged once."""

    def broken(_: Detail) -> HostState:
        raise KeyError("nodes")

    with serve(broken) as endpoints:
        for _ in range(2):
            assert get(endpoints, "/status")[:2] == (
                500,
                "this endpoint failed: KeyError: 'nodes'\n",
            )
    assert [record.getMessage() for record in caplog.records].count("endpoint failed") == 1


def test_address_in_use_is_an_error_with_a_remedy(serve: Serve) -> None:
    """A taken port is an error that names the address and the setting to change."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        fact = f"endpoints cannot be served at '{bind}': it is in use; set http.bind to .*port 0"
        with pytest.raises(AddressUnusable, match=fact), serve(bind=bind):
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
def test_unusable_address_is_an_error(serve: Serve, bind: str, fact: str) -> None:
    """An address that cannot be bound is an error that says what is wrong with it."""
    with pytest.raises(AddressUnusable, match=fact), serve(bind=bind):
        pass


def test_ipv6_address_can_be_bound(serve: Serve) -> None:
    """`[::1]:0` is served, and shown in brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with serve(bind="[::1]:0") as endpoints:
        assert endpoints.address.startswith("[::1]:")
        assert get(endpoints, "/livez")[1] == "ok"


def test_idle_client_does_not_delay_the_stop(serve: Serve, loop_thread: LoopThread) -> None:
    """A connection without a request is aborted at the stop."""
    with serve() as endpoints:
        host, _, port = endpoints.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            loop_thread.until(lambda: endpoints.connections)
            endpoints.stop()
            assert silent.recv(1) == b""
