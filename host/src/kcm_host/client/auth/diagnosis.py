"""Turns what goes wrong at a first request into one line that tells the user what to do."""

import ssl
import time

import aiohttp

from kcm_host.api.errors import ApiError
from kcm_host.client.auth.connection import Connection, certificate_problem
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.auth.server_url import is_tls

#: Who a request without credentials comes from, in the server's messages.
ANONYMOUS = "system:anonymous"
#: OpenSSL's numbers of a certificate for another name or address, and of one out of its time.
WRONG_NAME = (62, 64)
OUT_OF_TIME = (9, 10)
#: What OpenSSL reports when the other side speaks no TLS.
NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def explain(error: BaseException, connection: Connection) -> ConnectionProblem:
    """
    Say why no usable answer came from the server, where, and what to do.

    Takes what aiohttp, ssl or the system raised, also as the cause of another exception. Exit
    code 2 where kubeconfig or credentials are to blame, 1 where waiting may help.
    """
    error = _first(error)
    if isinstance(error, ConnectionProblem):
        return error
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return _proxy_refuses(error, connection)
    if isinstance(error, ApiError | aiohttp.ClientResponseError):
        return _answered(error.status, str(error), connection)
    cause = _root(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _distrusted(cause, connection)
    if isinstance(cause, ssl.SSLError):
        return _tls_failed(cause, connection)
    return _unreachable(error, cause, connection)


def credentials_overdue(connection: Connection, seconds: float) -> ConnectionProblem:
    """Say that the source of our credentials has not answered, so that nothing was sent yet."""
    return ConnectionProblem(
        f"{connection.credentials.source} has given no credentials within "
        f"{round(seconds, 1):g} s; see that it works without a terminal, or raise 'startTimeout'",
        exit_code=1,
    )


def refused(connection: Connection) -> ConnectionProblem:
    """Say that the server does not know our credentials (401)."""
    return ConnectionProblem(
        f"{connection.base_url} refuses the credentials from {connection.origin} (401)"
        f"{_out_of_time(connection)}; renew them or choose another user"
    )


def unseen(connection: Connection) -> ConnectionProblem:
    """Say that the server takes us for somebody anonymous, although we sent credentials."""
    return ConnectionProblem(
        f"{connection.base_url} does not see the credentials from {connection.origin}: to it we "
        f"are '{ANONYMOUS}'{_out_of_time(connection)}; see that no proxy before the server ends "
        f"TLS or drops the Authorization header, and that the server knows this sort of credentials"
    )


def _out_of_time(connection: Connection) -> str:
    problem = certificate_problem(connection.certificate, connection.origin, time.time())
    return f"; {problem}" if problem else ""


def _proxy_refuses(
    error: aiohttp.ClientHttpProxyError, connection: Connection
) -> ConnectionProblem:
    login = error.status == 407
    remedy = "put USER:PASSWORD@ before the host of" if login else "correct"
    return ConnectionProblem(
        f"the proxy before {connection.base_url} refuses to connect ({error.status}); {remedy} "
        f"proxy-url or HTTPS_PROXY, or list the host in NO_PROXY",
        exit_code=1,
    )


def _answered(status: int, text: str, connection: Connection) -> ConnectionProblem:
    if status == 401:
        return refused(connection)
    if status == 400 and not is_tls(connection.base_url):
        return _speaks_tls(connection)
    return ConnectionProblem(
        f"{connection.base_url} answered {status} ({text}); see that the server in "
        f"{connection.origin} is a Kubernetes API server",
        exit_code=1,
    )


def _distrusted(error: ssl.SSLCertVerificationError, connection: Connection) -> ConnectionProblem:
    if error.verify_code in WRONG_NAME:
        name = connection.tls_server_name or connection.base_url
        return ConnectionProblem(
            f"the certificate of {connection.base_url} is for other names than '{name}'; use a "
            f"name of the certificate in 'server', or set tls-server-name, in {connection.origin}"
        )
    if error.verify_code in OUT_OF_TIME:
        return ConnectionProblem(
            f"the certificate of {connection.base_url} is not valid at this time "
            f"({error.verify_message}); renew it, or correct the clock here",
            exit_code=1,
        )
    return ConnectionProblem(
        f"the certificate of {connection.base_url} is not trusted by {connection.authority} "
        f"({error.verify_message}); put the server's certificate authority into "
        f"{connection.origin}"
    )


def _tls_failed(error: ssl.SSLError, connection: Connection) -> ConnectionProblem:
    reason = error.reason or str(error)
    if reason in NOT_TLS:
        return ConnectionProblem(
            f"{connection.base_url} does not speak TLS ({reason}); write http:// or another port "
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
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        fact, remedy = "its name has no address", "correct the name or the resolver"
    elif isinstance(error, aiohttp.ClientProxyConnectionError):
        fact, remedy = "the proxy cannot be reached", "correct proxy-url or HTTPS_PROXY"
    elif isinstance(cause, ConnectionRefusedError):
        fact, remedy = "connection refused", "start the server or correct its port"
    elif isinstance(cause, TimeoutError):
        fact, remedy = "no answer in time", "see that no firewall drops the connection"
    elif isinstance(cause, aiohttp.ServerDisconnectedError | ConnectionResetError):
        if not is_tls(connection.base_url):
            return _speaks_tls(connection)
        fact = "the server closed the connection"
        remedy = "see that an API server is there, and whether it wants a client certificate"
    else:
        text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        fact, remedy = text, "see that an API server is there"
    return ConnectionProblem(f"cannot reach {where}: {fact}; {remedy}", exit_code=1)


def _speaks_tls(connection: Connection) -> ConnectionProblem:
    return ConnectionProblem(
        f"{connection.base_url} does not answer plain HTTP, it may want TLS; write https:// as "
        f"'server' in {connection.origin}"
    )


def _first(error: BaseException) -> BaseException:
    """What was raised before our own code gave it another name."""
    known = (ConnectionProblem, ApiError, aiohttp.ClientError, OSError)
    while not isinstance(error, known) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _root(error: BaseException) -> BaseException:
    """The system's own exception inside the wrapping of aiohttp."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error
