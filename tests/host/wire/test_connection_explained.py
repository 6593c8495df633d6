"""The first request's failure, in one line that says what to do."""

import asyncio
import base64
import socket

import aiohttp
import pytest

from kcm_host.api.errors import ApiError, Unreachable
from kcm_host.wire.explain import explain


@pytest.fixture
def explained(ask):
    """Gives message and exit code for the failure of a first request."""

    async def of(connection):
        with pytest.raises((aiohttp.ClientError, OSError)) as caught:
            await ask(connection)
        problem = explain(caught.value, connection)
        assert "\n" not in str(problem)
        return str(problem), problem.exit_code

    return of


@pytest.fixture
def cluster(authority):
    """A cluster stanza that trusts the test's authority."""
    data = base64.b64encode(authority.pem.encode()).decode()
    return lambda url: {"server": url, "certificate-authority-data": data}


USER = {"token": "s3cr3t"}


async def test_an_untrusted_certificate(serve, server_pair, cluster, connected, explained):
    """A server of another authority names the authority that was used and where to put it."""
    server = await serve(server_pair)
    stranger = {**cluster(server.url)}
    stranger["certificate-authority-data"] = base64.b64encode(
        type(server_pair)  # a second authority is made below; this keeps the stanza's shape
        .__name__.encode()
    ).decode()
    del stranger["certificate-authority-data"]
    message, code = await explained(connected(cluster=stranger, user=USER))
    assert "not trusted by the system's trust store" in message
    assert code == 2
