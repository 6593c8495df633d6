"""Waits for the API server at the start, and tells passing trouble from the lasting kind."""

import asyncio
from datetime import timedelta

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.wire.client import Client
from kcm_host.wire.explain import explain, refused
from kcm_host.wire.problem import ConnectionProblem

PAUSE_SECONDS = 1.0


async def reach(client: Client, *, agent: str, timeout: timedelta) -> None:  # noqa: ASYNC109 - the error must say what the last try met
    """
    Return once the server says that it is healthy; asked at once, then every second (H-41).

    Raises `ConnectionProblem` after `timeout`, and earlier when waiting cannot help: no or
    refused credentials, a certificate that is not trusted.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout.total_seconds()
    while True:
        problem = await _ask(client, agent, deadline - loop.time())
        if problem is None:
            return
        if problem.exit_code == 2 or loop.time() + PAUSE_SECONDS >= deadline:
            raise problem
        await asyncio.sleep(PAUSE_SECONDS)


async def _ask(client: Client, agent: str, seconds: float) -> ConnectionProblem | None:
    connection = client.connection
    try:
        async with asyncio.timeout(seconds):
            await client.call("GET", "/healthz", verb="get", agent=agent, accept="*/*")
    except Unreachable as error:
        return explain(error.__cause__ or error, connection)
    except TimeoutError as error:
        return explain(error, connection)
    except ApiError as error:
        if error.status == 401:
            return refused(connection)
        # 403: it is there and knows us, only health is not for us to see.
        return None if error.status == 403 else _unhealthy(error, connection.base_url)
    return None


def _unhealthy(error: HostError, server: str) -> ConnectionProblem:
    return ConnectionProblem(
        f"{server} is not healthy: {error}; see that the server in the kubeconfig is a Kubernetes "
        f"API server, and its log",
        exit_code=1,
    )
