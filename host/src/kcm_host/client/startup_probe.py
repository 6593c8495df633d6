"""The startup probe of the API server, and what explains why a first request has failed."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable
from datetime import timedelta
from itertools import repeat, takewhile

from kcm_host.api.errors import ApiError, HostError, Unreachable, Unreadable
from kcm_host.client.auth.addresses import is_tls
from kcm_host.client.auth.connection import Connection, certificate_problem
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.http.connection import ConnectionLost
from kcm_host.client.http.dialer import DialError, ProxyRefused
from kcm_host.client.http.messages import BadResponse
from kcm_host.client.rest import Client
from kcm_host.retries import retry

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

    def probe() -> Awaitable[CachedDiscoveryClient]:
        # The last attempt may exceed the deadline: with less time its error would say nothing.
        return _probe(client, agent, max(deadline - loop.time(), PAUSE_SECONDS))

    pauses = repeat(PAUSE_SECONDS)
    return await retry(
        probe,
        on=ConnectionProblem,
        delays=takewhile(lambda pause: loop.time() + pause < deadline, pauses),
        is_temporary=lambda problem: problem.exit_code == 1,
    )


async def _probe(client: Client, agent: str, seconds: float) -> CachedDiscoveryClient:
    connection = client.connection
    # A new one for each attempt: of a failed one nothing may be left.
    discovery = CachedDiscoveryClient(client, user_agent=agent)
    try:
        async with asyncio.timeout(seconds):
            await _check_health(client, agent)
            await discovery.fetch()
    except TimeoutError as error:
        if connection.credentials.is_fetching:
            problem = credentials_overdue(connection, seconds)
        else:
            problem = explain(error, connection)
    except HostError as error:
        problem = _refused(error, connection)
    else:
        return discovery
    # Not in a handler: the problem may be the cause of the error that is handled there, and the
    # two would refer to each other.
    raise problem


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


#: The user of a request without credentials.
ANONYMOUS = "system:anonymous"
#: OpenSSL's error numbers for a certificate of another name, and for one outside its validity.
WRONG_NAME = (62, 64)
OUTSIDE_VALIDITY = (9, 10)
#: OpenSSL's error reasons when the peer does not use TLS.
NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def explain(error: BaseException, connection: Connection) -> ConnectionProblem:
    """
    Return the problem that explains why a request to the server has failed.

    `error` is an exception of the transport, ssl or the system, or one caused by it. The exit code
    is 2 if kubeconfig or credentials are wrong, 1 if waiting may help.
    """
    # The cause decides, not the text: texts of OpenSSL differ by version.
    error = _outer_cause(error)
    if isinstance(error, ConnectionProblem):
        return error
    if isinstance(error, ProxyRefused):
        return _proxy_refuses(error, connection)
    if isinstance(error, ApiError):
        return _error_response(error.status, str(error), connection)
    cause = error.cause if isinstance(error, DialError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _certificate_refused(cause, connection)
    if isinstance(cause, ssl.SSLError):
        return _tls_failed(cause, connection)
    return _unreachable(error, cause, connection)


def credentials_overdue(connection: Connection, seconds: float) -> ConnectionProblem:
    """Return the problem of a credential source that has not returned in time."""
    return ConnectionProblem(
        f"{connection.credentials.source} has returned no credentials within "
        f"{round(seconds, 1):g} s; check that it works without a terminal, or raise 'startTimeout'",
        exit_code=1,
    )


def credentials_refused(connection: Connection) -> ConnectionProblem:
    """Return the problem of credentials that the server refuses (401)."""
    return ConnectionProblem(
        f"{connection.base_url} refuses the credentials from {connection.origin} (401)"
        f"{_certificate_hint(connection)}; renew them or resolve_context another user"
    )


def seen_as_anonymous(connection: Connection) -> ConnectionProblem:
    """Return the problem of credentials that do not reach the server."""
    return ConnectionProblem(
        f"{connection.base_url} does not get the credentials from {connection.origin}: the "
        f"user is '{ANONYMOUS}'{_certificate_hint(connection)}; check that no proxy before "
        f"the server terminates TLS or drops the Authorization header, and that the server accepts "
        f"this kind of credentials"
    )


def _certificate_hint(connection: Connection) -> str:
    problem = certificate_problem(connection.certificate, connection.origin, time.time())
    return f"; {problem}" if problem else ""


def _proxy_refuses(error: ProxyRefused, connection: Connection) -> ConnectionProblem:
    login = error.status == 407
    remedy = "put USER:PASSWORD@ before the host of" if login else "correct"
    return ConnectionProblem(
        f"the proxy before {connection.base_url} refuses to connect ({error.status}); {remedy} "
        f"proxy-url or HTTPS_PROXY, or list the host in NO_PROXY",
        exit_code=1,
    )


def _error_response(status: int, text: str, connection: Connection) -> ConnectionProblem:
    if status == 401:
        return credentials_refused(connection)
    if status == 400 and not is_tls(connection.base_url):
        return _tls_expected(connection)
    return ConnectionProblem(
        f"{connection.base_url} answered {status} ({text}); see that the server in "
        f"{connection.origin} is a Kubernetes API server",
        exit_code=1,
    )


def _certificate_refused(
    error: ssl.SSLCertVerificationError, connection: Connection
) -> ConnectionProblem:
    if error.verify_code in WRONG_NAME:
        name = connection.tls_server_name or connection.base_url
        return ConnectionProblem(
            f"the certificate of {connection.base_url} is for other names than '{name}'; use a "
            f"name of the certificate in 'server', or set tls-server-name, in {connection.origin}"
        )
    if error.verify_code in OUTSIDE_VALIDITY:
        return ConnectionProblem(
            f"the certificate of {connection.base_url} is not valid at this time "
            f"({error.verify_message}); renew it, or correct the clock here",
            exit_code=1,
        )
    return ConnectionProblem(
        f"the certificate of {connection.base_url} is not trusted by {connection.ca_bundle.place} "
        f"({error.verify_message}); put the server's certificate authority into "
        f"{connection.origin}"
    )


def _tls_failed(error: ssl.SSLError, connection: Connection) -> ConnectionProblem:
    reason = error.reason or str(error)
    if reason in NOT_TLS:
        return ConnectionProblem(
            f"{connection.base_url} does not use TLS ({reason}); write http:// or another port "
            f"as 'server' in {connection.origin}"
        )
    if "ALERT" in reason:
        return ConnectionProblem(
            f"{connection.base_url} refuses our client certificate or TLS version ({reason}); "
            f"renew the credentials in {connection.origin}"
        )
    return ConnectionProblem(
        f"no TLS connection to {connection.base_url}: {reason}; see that an API server is there",
        exit_code=1,
    )


def _unreachable(
    error: BaseException, cause: BaseException, connection: Connection
) -> ConnectionProblem:
    via = " through a proxy" if connection.proxy else ""
    where = f"{connection.base_url}{via} (from {connection.origin})"
    if isinstance(error, DialError) and error.to_proxy:
        fact, remedy = "the proxy cannot be reached", "correct proxy-url or HTTPS_PROXY"
    elif isinstance(cause, socket.gaierror):
        fact, remedy = "its name has no address", "correct the name or the resolver"
    elif isinstance(cause, ConnectionRefusedError):
        fact, remedy = "connection refused", "start the server or correct its port"
    elif isinstance(cause, TimeoutError):
        fact, remedy = "no response in time", "see that no firewall drops the connection"
    elif isinstance(cause, ConnectionLost | BadResponse | ConnectionResetError) and not is_tls(
        connection.base_url
    ):
        return _tls_expected(connection)
    elif isinstance(cause, ConnectionLost | ConnectionResetError):
        fact = "the server closed the connection"
        remedy = "see that an API server is there, and whether it wants a client certificate"
    else:
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        fact, remedy = text, "see that an API server is there"
    return ConnectionProblem(f"cannot reach {where}: {fact}; {remedy}", exit_code=1)


def _tls_expected(connection: Connection) -> ConnectionProblem:
    return ConnectionProblem(
        f"{connection.base_url} does not answer plain HTTP, it may want TLS; write https:// as "
        f"'server' in {connection.origin}"
    )


def _outer_cause(error: BaseException) -> BaseException:
    """Return the exception that was raised before our own code wrapped it."""
    known = (ConnectionProblem, ApiError, OSError)
    while not isinstance(error, known) and error.__cause__ is not None:
        error = error.__cause__
    return error
