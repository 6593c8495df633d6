"""The proxy of faults passes everything on, but for what a test asks it to spoil."""

import http.client
import json
import time
from typing import Any

import pytest
from kubernetes import client, config

from kcm_host_testing import probe
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.faults import AfterLines, Answer, Cut, Delay, Point, Rewrite
from kcm_host_testing.proxy import FaultProxy


def call(proxy: FaultProxy, server: ApiServer, path: str, **more: Any) -> tuple[int, bytes]:
    """Status and body of a request as admin through the proxy."""
    return probe.request(
        f"{proxy.url}{path}", ca_file=proxy.ca_file, token=server.admin_token, **more
    )


def test_without_faults_the_proxy_is_not_noticed(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    """A client with the proxy's kubeconfig reads and writes, and each request is recorded."""
    load: Any = config.new_client_from_config
    api = load(str(fault_proxy.kubeconfig()))
    api.user_agent = "proxy-test/1"
    core: Any = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "through"}})
    listed = core.list_namespaced_config_map(namespace, label_selector="!no/such, a!=b,c notin (d)")
    api.close()
    assert [item.metadata.name for item in listed.items] == ["through"]
    written, read = fault_proxy.requests(path=f"/{namespace}/configmaps")
    assert (written.method, written.status, written.user_agent) == ("POST", 201, "proxy-test/1")
    assert json.loads(written.body) == {"metadata": {"name": "through"}}
    assert written.headers["user-agent"] == written.user_agent
    assert read.query == {"labelSelector": "!no/such, a!=b,c notin (d)"}
    assert not read.watch


def test_answers_come_in_the_order_of_the_rules(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """Three faults for one request each come one by one, and then the server's own answer."""
    first = fault_proxy.add(Answer(429, b"slow", {"Retry-After": "1"}), path="^/readyz$", times=1)
    second = fault_proxy.add(Answer(500, b"broken"), path="^/readyz$", times=1)
    assert call(fault_proxy, api_server, "/readyz") == (429, b"slow")
    assert call(fault_proxy, api_server, "/livez") == (200, b"ok")
    third = fault_proxy.add(Cut(), path="^/readyz$", times=1)
    assert call(fault_proxy, api_server, "/readyz") == (500, b"broken")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        call(fault_proxy, api_server, "/readyz")
    assert call(fault_proxy, api_server, "/readyz") == (200, b"ok")
    assert (first.hits, second.hits, third.hits) == (1, 1, 1)


def test_rules_take_only_what_matches(fault_proxy: FaultProxy, api_server: ApiServer) -> None:
    """Method, path, query and predicate all have to fit; a removed rule fits nothing."""
    rule = fault_proxy.add(
        Answer(418),
        method="GET",
        path=r"^/api/v1/nodes$",
        query={"limit": "1"},
        when=lambda request: request.user_agent == "kcm-host-testing",
    )
    statuses = {
        path: call(fault_proxy, api_server, path)[0]
        for path in ("/api/v1/nodes?limit=1&x=y", "/api/v1/nodes?limit=2", "/api/v1/pods?limit=1")
    }
    assert list(statuses.values()) == [418, 200, 200]
    rule.remove()
    assert call(fault_proxy, api_server, "/api/v1/nodes?limit=1")[0] == 200
    assert rule.hits == 1


@pytest.mark.parametrize(
    ("point", "happened"), [(Point.REQUEST, 404), (Point.ANSWER, 200)], ids=["before", "after"]
)
def test_a_cut_write_has_happened_or_not(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str, point: Point, happened: int
) -> None:
    """A cut before the server sees the write undoes it; a cut of the answer only hides it."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    fault_proxy.add(Cut(point), method="POST", times=1)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        call(fault_proxy, api_server, path, method="POST", body={"metadata": {"name": "cut"}})
    assert call(fault_proxy, api_server, f"{path}/cut")[0] == happened
    (write,) = fault_proxy.requests(method="POST")
    assert write.status is None


def test_a_watch_is_cut_over_tls(
    fault_proxy: FaultProxy, api_server: ApiServer, namespace: str
) -> None:
    """A cut in mid-stream ends an encrypted watch after just so many whole lines."""
    fault_proxy.add(Cut(AfterLines(1)), query={"watch": "1"})
    path = f"/api/v1/namespaces?watch=1&fieldSelector=metadata.name={namespace}"
    with pytest.raises(http.client.IncompleteRead) as cut:
        call(fault_proxy, api_server, path)
    assert json.loads(cut.value.partial)["object"]["metadata"]["name"] == namespace
    (request,) = fault_proxy.wait_for_requests(when=lambda request: not request.open)
    assert request.lines == 1


def test_a_delayed_request_takes_that_long(fault_proxy: FaultProxy, api_server: ApiServer) -> None:
    """A delay passes before the server sees the request."""
    fault_proxy.add(Delay(0.3), times=1)
    begin = time.monotonic()
    assert call(fault_proxy, api_server, "/readyz")[0] == 200
    assert time.monotonic() - begin >= 0.3


def test_one_answer_can_be_changed(fault_proxy: FaultProxy, api_server: ApiServer) -> None:
    """A rewrite gets a JSON answer as one line, though the client would accept compression."""
    fault_proxy.add(Rewrite(lambda line: line.replace(b"NamespaceList", b"SomethingElse")))
    status, body = call(fault_proxy, api_server, "/api/v1/namespaces")
    assert status == 200
    assert json.loads(body)["kind"] == "SomethingElse"


def test_refused_connections_come_back_on_the_same_port(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """While refusing nobody listens; afterwards the same address answers."""
    fault_proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        call(fault_proxy, api_server, "/readyz")
    fault_proxy.accept()
    assert call(fault_proxy, api_server, "/readyz") == (200, b"ok")


def test_a_server_that_is_gone_looks_gone(fault_proxy: FaultProxy, api_server: ApiServer) -> None:
    """When there is nobody behind the proxy the client is cut off and not answered."""
    fault_proxy._forwarder._target = "https://127.0.0.1:9"
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        call(fault_proxy, api_server, "/readyz")


def test_waiting_for_what_does_not_come_is_an_error(
    fault_proxy: FaultProxy, api_server: ApiServer
) -> None:
    """Waiting for requests or hits tells how many there were."""
    rule = fault_proxy.add(Delay(0))
    call(fault_proxy, api_server, "/readyz")
    rule.wait_until_hit(1)
    assert len(fault_proxy.wait_for_requests(1, path="/readyz")) == 1
    with pytest.raises(TimeoutError, match="met 1 requests and not 2"):
        rule.wait_until_hit(2, timeout_seconds=0.1)
    with pytest.raises(TimeoutError, match="1 requests and not 2"):
        fault_proxy.wait_for_requests(2, path="/readyz", timeout_seconds=0.1)
