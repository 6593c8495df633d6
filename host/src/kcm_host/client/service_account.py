"""Acting as a service account, with tokens that somebody else may request for it."""

import asyncio
import dataclasses
import time
from datetime import datetime
from typing import Annotated, Any

import msgspec

from kcm_host.api.errors import ApiError, Conflict, HostError, NotFound
from kcm_host.api.kinds import Key, Kind
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import Clock, Credentials, RequestCredentials, authorization
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.auth.tls import ClientTls
from kcm_host.client.errors import ResponseDecoder
from kcm_host.client.paths import collection, item
from kcm_host.client.rest import JSON, Client

ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
#: Where the accounts of the controllers live.
HOME = "kube-system"

TOKEN_SECONDS = 3600
#: A token is renewed after this share of its life, which counts as ten minutes at least.
RENEWED_AT = 0.8
SHORTEST_SECONDS = 600
TRIES = 4
FIRST_PAUSE_SECONDS = 0.5


class _TokenStatus(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)]


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


_decode = ResponseDecoder(_TokenRequest)


def with_service_account(
    name: str, client: Client, *, agent: str, clock: Clock = time.time
) -> Connection:
    """
    Give the connection of `client`, but as service account `name` in kube-system (H-35).

    The account, and kube-system itself, is made where it is missing. Nothing is asked for before
    the first request.
    """
    connection = client.connection
    # Without the host's client certificate: the server would take that for the answer.
    tls = ClientTls(connection.trust) if connection.base_url.startswith("https") else None
    tokens = ServiceAccountTokens(Key(name, HOME), client, agent=agent, tls=tls, clock=clock)
    return dataclasses.replace(
        connection,
        credentials=Credentials(tokens.fetch, clock=clock),
        origin=f"service account '{HOME}/{name}'",
        certificate=None,
    )


class ServiceAccountTokens:
    """Requests tokens of one service account."""

    def __init__(
        self, account: Key, client: Client, *, agent: str, tls: ClientTls | None, clock: Clock
    ) -> None:
        self._account = account
        self._client = client
        self._agent = agent
        self._tls = tls
        self._clock = clock

    async def fetch(self) -> RequestCredentials:
        """Give access by a new token; raises `ConnectionProblem` after four tries."""
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(1, TRIES + 1):
            try:
                return await self._requested()
            except HostError as error:
                # Refused as well: a server that has just started knows no roles for a moment.
                if attempt == TRIES:
                    raise self._problem(error) from error
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def _requested(self) -> RequestCredentials:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        path = item(ACCOUNT, self._account, "token")
        try:
            answer = await self._post(path, body)
        except NotFound:
            await self._make_account()
            answer = await self._post(path, body)
        status = _decode(answer, f"create {path}").status
        now = self._clock()
        expires_at = status.expiration_timestamp.timestamp()
        life = max(expires_at - now, SHORTEST_SECONDS)
        return RequestCredentials(
            headers=authorization("Bearer", status.token, place=f"token of {self._account}"),
            ssl=self._tls.context() if self._tls is not None else None,
            renew_at=now + life * RENEWED_AT,
            expires_at=expires_at,
        )

    async def _make_account(self) -> None:
        await self._make(NAMESPACE, Key(self._account.namespace))
        await self._make(ACCOUNT, self._account)

    async def _make(self, kind: Kind, key: Key) -> None:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": key.name},
        }
        try:
            await self._client.call("GET", item(kind, key), verb="get", agent=self._agent)
        except NotFound:
            try:
                await self._post(collection(kind, key.namespace), body)
            except Conflict:
                return  # somebody else was faster

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        return await self._client.call(
            "POST",
            path,
            verb="create",
            agent=self._agent,
            body=msgspec.json.encode(body),
            content_type=JSON,
        )

    def _problem(self, error: Exception) -> ConnectionProblem:
        refused = isinstance(error, ApiError) and error.status == 403
        remedy = (
            "grant create on serviceaccounts/token, and create on serviceaccounts, to the host's "
            "identity, or set 'serviceAccountCredentials: false'"
            if refused
            else "see the API server's log"
        )
        return ConnectionProblem(
            f"no token for service account '{self._account}': {error}; {remedy}", exit_code=1
        )
