"""Connections that use tokens of a service account instead of the host's own credentials."""

import dataclasses
import time
from datetime import datetime
from typing import Annotated, Any

import msgspec

from kcm_host.api.errors import ApiError, Conflict, HostError, NotFound
from kcm_host.api.kinds import Key, Kind
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.credentials import Clock, Credentials, RequestCredentials, authorization
from kcm_host.client.auth.tls import ClientTls
from kcm_host.client.errors import ConnectionProblem, ResponseDecoder
from kcm_host.client.rest import JSON, Client, collection, item
from kcm_host.retries import retry

SERVICE_ACCOUNT = Kind(group="", version="v1", name="ServiceAccount", resource="serviceaccounts")
NAMESPACE = Kind(group="", version="v1", name="Namespace", resource="namespaces", namespaced=False)
#: The namespace of the controllers' service accounts.
KUBE_SYSTEM = "kube-system"

TOKEN_SECONDS = 3600
#: A token is renewed after this share of its lifetime, of which ten minutes are the minimum.
RENEW_AFTER_SHARE = 0.8
MIN_LIFETIME_SECONDS = 600
#: The delays between the four attempts to get a token (H-35).
RETRY_SECONDS = (0.5, 1.0, 2.0)


class _TokenStatus(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)]


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


_decode = ResponseDecoder(_TokenRequest)


def with_service_account(
    name: str, client: Client, *, user_agent: str, clock: Clock = time.time
) -> Connection:
    """
    Return the connection of `client`, but with service account `name` in kube-system (H-35).

    The account, and kube-system itself, is created if it is missing. No request is sent before
    the first use.
    """
    connection = client.connection
    # Without the host's client certificate: it would take precedence over the token.
    tls = ClientTls(connection.ca_bundle) if connection.base_url.startswith("https") else None
    tokens = ServiceAccountTokens(
        Key(name, KUBE_SYSTEM), client, user_agent=user_agent, tls=tls, clock=clock
    )
    return dataclasses.replace(
        connection,
        credentials=Credentials(tokens.fetch, clock=clock),
        origin=f"service account '{KUBE_SYSTEM}/{name}'",
        certificate=None,
    )


class ServiceAccountTokens:
    """Source of tokens of one service account (TokenRequest)."""

    def __init__(
        self, account: Key, client: Client, *, user_agent: str, tls: ClientTls | None, clock: Clock
    ) -> None:
        self._account = account
        self._client = client
        self._user_agent = user_agent
        self._tls = tls
        self._clock = clock

    async def fetch(self) -> RequestCredentials:
        """Return credentials with a new token; raise `ConnectionProblem` after four attempts."""
        try:
            # Also after a 403: a server that has just started has no roles for a moment.
            return await retry(self._request_token, on=HostError, delays=RETRY_SECONDS)
        except HostError as error:
            raise self._problem(error) from error

    async def _request_token(self) -> RequestCredentials:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        path = item(SERVICE_ACCOUNT, self._account, "token")
        try:
            response = await self._post(path, body)
        except NotFound:
            await self._create(NAMESPACE, Key(self._account.namespace))
            await self._create(SERVICE_ACCOUNT, self._account)
            response = await self._post(path, body)
        status = _decode(response, f"create {path}").status
        now = self._clock()
        expires_at = status.expiration_timestamp.timestamp()
        # The clocks of server and host may differ: a token that seems expired already must not be
        # requested anew for each request.
        lifetime = max(expires_at - now, MIN_LIFETIME_SECONDS)
        return RequestCredentials(
            headers=authorization("Bearer", status.token, place=f"token of {self._account}"),
            ssl=self._tls.context() if self._tls is not None else None,
            renew_at=now + lifetime * RENEW_AFTER_SHARE,
            expires_at=expires_at,
        )

    async def _create(self, kind: Kind, key: Key) -> None:
        """Create an object if it does not exist."""
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": key.name},
        }
        try:
            await self._client.call("GET", item(kind, key), verb="get", user_agent=self._user_agent)
        except NotFound:
            try:
                await self._post(collection(kind, key.namespace), body)
            except Conflict:
                return  # another client has created it meanwhile

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        return await self._client.call(
            "POST",
            path,
            verb="create",
            user_agent=self._user_agent,
            body=msgspec.json.encode(body),
            content_type=JSON,
        )

    def _problem(self, error: Exception) -> ConnectionProblem:
        is_forbidden = isinstance(error, ApiError) and error.status == 403
        remedy = (
            "grant create on serviceaccounts/token, and create on serviceaccounts, to the host's "
            "identity, or set 'serviceAccountCredentials: false'"
            if is_forbidden
            else "see the API server's log"
        )
        return ConnectionProblem(
            f"no token for service account '{self._account}': {error}; {remedy}", exit_code=1
        )
