"""The older auth providers, as far as the official package knows them."""

import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from host.client.conftest import Authority, Connected, WriteKubeconfig

from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem

CLUSTER = {"server": "http://127.0.0.1:1"}

Issuer = tuple[str, str, list[object], list[str]]


def jwt(*, expires_at: int, name: str = "somebody") -> str:
    """An unsigned token of three parts."""
    parts = [{"alg": "none"}, {"sub": name, "exp": expires_at}, {"s": 1}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(text.rstrip("=") for text in texts)


def oidc(**config: str) -> dict[str, Any]:
    """A user section with the provider `oidc`."""
    names = {name.replace("_", "-"): value for name, value in config.items()}
    return {"auth-provider": {"name": "oidc", "config": names}}


@pytest.fixture
async def issuer(authority: Authority, tmp_path: Path) -> AsyncIterator[Issuer]:
    """An OpenID issuer over TLS that hands out one new token and notes the refresh tokens."""
    context = authority.issue("issuer").server(tmp_path)
    spent: list[object] = []
    visits: list[str] = []
    fresh = jwt(expires_at=int(time.time()) + 3600, name="renewed")

    async def discovery(request: web.Request) -> web.Response:
        visits.append(request.path)
        return web.json_response({"token_endpoint": f"{url}/token"})

    async def renew(request: web.Request) -> web.Response:
        spent.append((await request.post())["refresh_token"])
        return web.json_response(
            {
                "id_token": fresh,
                "refresh_token": "next",
                "access_token": "x",
                "token_type": "Bearer",
            }
        )

    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", discovery)
    application.router.add_post("/token", renew)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield url, fresh, spent, visits
    finally:
        await runner.cleanup()


@pytest.fixture
def expired(issuer: Issuer) -> dict[str, str]:
    """An expired session at the issuer."""
    return {
        "id_token": jwt(expires_at=1000),
        "refresh_token": "first",
        "client_id": "kube",
        "client_secret": "s3cr3t",
        "idp_issuer_url": issuer[0],
    }


async def test_a_valid_token_is_used(connected: Connected) -> None:
    """A token that has not expired is sent as it is."""
    token = jwt(expires_at=int(time.time()) + 3600)
    connection = connected(cluster=CLUSTER, user=oidc(id_token=token))
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {token}"}


async def test_an_expired_token_is_renewed_and_kept(
    issuer: Issuer, authority: Authority, expired: dict[str, str], kubeconfig: WriteKubeconfig
) -> None:
    """An expired token is renewed at the issuer, and both new tokens go into the kubeconfig."""
    _, fresh, spent, _ = issuer
    data = base64.b64encode(authority.pem.encode()).decode()
    user = oidc(**expired, idp_certificate_authority_data=data)
    path = kubeconfig(cluster=CLUSTER, user=user)
    connection = connect(str(path), environ={})
    assert await connection.credentials.headers() == {"Authorization": f"Bearer {fresh}"}
    assert spent == ["first"]
    written = yaml.safe_load(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert (written["id-token"], written["refresh-token"]) == (fresh, "next")


# Without this an unverified request would be stopped by our warnings filter, not by us.
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
async def test_an_untrusted_issuer_is_not_asked(
    issuer: Issuer, expired: dict[str, str], connected: Connected
) -> None:
    """Without the issuer's authority the system's counts: not even its endpoints are believed."""
    connection = connected(cluster=CLUSTER, user=oidc(**expired))
    with pytest.raises(ConnectionProblem, match="auth-provider 'oidc' of user 'u1'") as caught:
        await connection.credentials.current()
    assert issuer[3] == []
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("token", ["s3cr3t", "a=.b.c"])
async def test_a_token_that_is_none(connected: Connected, token: str) -> None:
    """What is no JSON web token is an error instead of no credentials."""
    connection = connected(cluster=CLUSTER, user=oidc(id_token=token))
    with pytest.raises(ConnectionProblem, match="returned no token") as caught:
        await connection.credentials.current()
    assert "s3cr3t" not in str(caught.value)


async def test_a_token_of_gcp(connected: Connected) -> None:
    """The provider `gcp` with a stored token that has no expiry sends it."""
    user = {"auth-provider": {"name": "gcp", "config": {"access-token": "abc"}}}
    connection = connected(cluster=CLUSTER, user=user)
    assert await connection.credentials.headers() == {"Authorization": "Bearer abc"}


async def test_gcp_without_its_tools_is_an_error(connected: Connected) -> None:
    """The provider `gcp` that would have to fetch a token, but cannot, is an error."""
    connection = connected(cluster=CLUSTER, user={"auth-provider": {"name": "gcp"}})
    with pytest.raises(ConnectionProblem, match="auth-provider 'gcp' of user 'u1'"):
        await connection.credentials.current()
