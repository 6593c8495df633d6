"""The startup probe of the API server: temporary errors are retried, permanent ones raised."""

import asyncio
from datetime import timedelta

from kcm_host.api.errors import ApiError, HostError, Unreachable, Unreadable
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.diagnosis import (
    ANONYMOUS,
    credentials_overdue,
    credentials_refused,
    explain,
    seen_as_anonymous,
)
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import Client

PAUSE_SECONDS = 1.0


async def wait_for_api_server(
    client: Client,
    *,
    agent: str,
    timeout: timedelta,  # noqa: ASYNC109 - the error is that of the last attempt
) -> CachedDiscoveryClient:
    """
    Return a filled discovery client once the API server is healthy (H-41).

    It is probed at once, then every second. Raises `ConnectionProblem` after `timeout`, and
    earlier for permanent errors: no or refused credentials, a certificate that is not trusted.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout.total_seconds()
    while True:
        # The last attempt may exceed the deadline: with less time its error would say nothing.
        result = await _probe(client, agent, max(deadline - loop.time(), PAUSE_SECONDS))
        if isinstance(result, CachedDiscoveryClient):
            return result
        if result.exit_code == 2 or loop.time() + PAUSE_SECONDS >= deadline:
            raise result
        await asyncio.sleep(PAUSE_SECONDS)


async def _probe(
    client: Client, agent: str, seconds: float
) -> CachedDiscoveryClient | ConnectionProblem:
    connection = client.connection
    discovery = CachedDiscoveryClient(client, user_agent=agent)
    try:
        async with asyncio.timeout(seconds):
            await _check_health(client, agent)
            await discovery.fetch()
    except TimeoutError as error:
        if connection.credentials.is_fetching:
            return credentials_overdue(connection, seconds)
        return explain(error, connection)
    except HostError as error:
        return _refused(error, connection)
    return discovery


async def _check_health(client: Client, agent: str) -> None:
    try:
        await client.call("GET", "/healthz", verb="get", user_agent=agent, accept="*/*")
    except ApiError as error:
        # 403: the server is healthy enough to authenticate, only /healthz is not permitted.
        if error.status != 403:
            raise


def _refused(error: HostError, connection: Connection) -> ConnectionProblem:
    if isinstance(error, Unreachable) and not isinstance(error, Unreadable):
        return explain(error.__cause__ or error, connection)
    status = error.status if isinstance(error, ApiError) else 0
    if status == 401:
        return credentials_refused(connection)
    if status == 403 and ANONYMOUS in str(error):
        return seen_as_anonymous(connection)
    if status == 403:
        fact = "does not let us see what it serves"
        remedy = "bind ClusterRole 'system:discovery' to the host's identity"
    else:
        fact = "is not healthy"
        remedy = "see that the server in the kubeconfig is a Kubernetes API server, and its log"
    return ConnectionProblem(f"{connection.base_url} {fact}: {error}; {remedy}", exit_code=1)
