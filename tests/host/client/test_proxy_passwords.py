"""The password of a proxy goes to the proxy and to nobody else."""

import asyncio
import base64
import logging
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from host.client.raw_servers import AGENT, get, listening

from kcm_host.api.errors import ApiError, Unreachable
from kcm_host.client.auth.addresses import usable_proxy
from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem, without_secrets
from kcm_host.client.rest import Client
from kcm_host.client.startup_probe import wait_for_api_server
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy

SECRET = "S3CRET"


class RefusingProxy:
    """Answers every request with one status, and notes what it was shown."""

    def __init__(self, status: int) -> None:
        self.heads: list[bytes] = []
        self._status = status

    async def __call__(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        self.heads.append(head)
        writer.write(f"HTTP/1.1 {self._status} No\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("status", [407, 502])
async def test_no_text_holds_the_proxys_password(
    kubeconfig: Any, caplog: pytest.LogCaptureFixture, status: int, scheme: str
) -> None:
    """F-2: no error, no cause of one and no start tells it; the proxy gets it all the same."""
    proxy = RefusingProxy(status)
    async with listening(proxy) as port:
        url = f"http://b%3Fb:{SECRET}%40@127.0.0.1:{port}"
        cluster = {"server": f"{scheme}://kube.example", "proxy-url": url}
        path: Path = kubeconfig(cluster=cluster, user={"token": "t"})
        connection = connect(str(path), environ={})
        assert SECRET not in repr(connection)
        async with Client(connection, lambda _: None) as client:
            with caplog.at_level(logging.DEBUG), pytest.raises((Unreachable, ApiError)) as raised:
                await get(client)
            assert SECRET not in "".join(traceback.format_exception(raised.value))
            assert str(status) in str(raised.value)
            with pytest.raises(ConnectionProblem) as told:
                await wait_for_api_server(client, agent=AGENT, timeout=timedelta(seconds=0.1))
            assert SECRET not in "".join(traceback.format_exception(told.value))
    assert SECRET not in caplog.text
    login = base64.b64encode(f"b?b:{SECRET}@".encode())
    assert all(b"Proxy-Authorization: Basic " + login in head for head in proxy.heads)


async def test_a_tunnel_that_is_refused_is_worded_by_its_status(kubeconfig: Any) -> None:
    """F-2: the proxy is blamed, in words of ours."""
    async with listening(RefusingProxy(502)) as port:
        url = f"http://bob:{SECRET}@127.0.0.1:{port}"
        cluster = {"server": "https://kube.example", "proxy-url": url}
        connection = connect(str(kubeconfig(cluster=cluster, user={"token": "t"})), environ={})
        async with Client(connection, lambda _: None) as client:
            with pytest.raises(Unreachable, match=r"the proxy refuses to connect \(502\)"):
                await get(client)


async def test_error_pages_are_scrubbed(fault_proxy: FaultProxy) -> None:
    """F-2: a page that repeats the URL it was asked for does not spread the password."""
    page = f"no route to http://bob:{SECRET}@proxy.example:3128/ from here".encode()
    fault_proxy.add(Answer(502, page))
    connection = connect(str(fault_proxy.kubeconfig()), environ={})
    async with Client(connection, lambda _: None) as client:
        with pytest.raises(ApiError) as raised:
            await get(client)
    assert "no route to http://***@proxy.example:3128/ from here" in str(raised.value)
    assert raised.value.server_message == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://bob:pw@h:1 and https://x@y/z", "http://***@h:1 and https://***@y/z"),
        ("url='http://bob:pw@h'", "url='http://***@h'"),
        ("http://host/a@b", "http://host/a@b"),
        ("mail bob@example.com", "mail bob@example.com"),
    ],
)
def test_user_information_is_replaced(text: str, shown: str) -> None:
    """F-2: in every URL of a text, and nothing else of it."""
    assert without_secrets(text) == shown
    assert str(ConnectionProblem(text)) == shown


@pytest.mark.parametrize(
    "url", [f"bob:{SECRET}@h://x", f"http://bob:{SECRET}@h:x", f"bob:{SECRET}@"]
)
def test_an_unusable_proxy_url_is_not_repeated(url: str) -> None:
    """F-2: also where the URL itself is the mistake."""
    with pytest.raises(ConnectionProblem) as raised:
        usable_proxy(url, place="proxy-url")
    assert SECRET not in str(raised.value)
