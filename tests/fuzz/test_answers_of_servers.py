"""Whatever a server or a proxy answers to a call: one of our errors, within a second of CPU."""

import asyncio
import base64
import json
from typing import Any

from fuzz_input import one_input
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api.errors import ApiError, HostError, Unreadable
from kcm_host.api.kinds import Key
from kcm_host.client.auth.addresses import usable_proxy
from kcm_host.client.auth.tls import validity_of
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.errors import (
    ConnectionProblem,
    error_of_event,
    error_of_response,
    is_gone,
    is_too_large,
    without_secrets,
)
from kcm_host.client.rest import ConditionalResponse
from kcm_host.client.service_account import ServiceAccountTokens

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("Status")
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def shaped(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return mappings of these fields, of which some are missing and some hold anything."""
    mixed = {name: st.one_of(field, field, field, values) for name, field in fields.items()}
    return st.fixed_dictionaries({}, optional=mixed)


statuses = shaped(
    kind=st.just("Status"),
    message=st.text(),
    reason=st.sampled_from(["Expired", "Conflict", ""]),
    code=st.integers(),
    details=shaped(
        causes=st.lists(shaped(reason=st.just("ResourceVersionTooLarge")), max_size=3),
        retryAfterSeconds=st.integers(),
    ),
)
resources = shaped(
    resource=st.text(max_size=5),
    responseKind=shaped(kind=st.text(max_size=5)),
    scope=st.sampled_from(["Namespaced", "Cluster"]),
    verbs=st.lists(st.text(max_size=5), max_size=3),
)
versions = shaped(
    version=st.sampled_from(["v1", "v2"]),
    resources=st.lists(resources, max_size=3),
    freshness=st.sampled_from(["Current", "Stale"]),
)
aggregated = shaped(
    kind=st.just("APIGroupDiscoveryList"),
    items=st.lists(
        shaped(metadata=shaped(name=st.text(max_size=5)), versions=st.lists(versions, max_size=3)),
        max_size=3,
    ),
)
groups = shaped(
    kind=st.sampled_from(["APIGroupList", "APIVersions", "Status"]),
    groups=st.lists(shaped(name=st.text(max_size=5)), max_size=3),
)
tokens = shaped(
    status=shaped(
        token=st.text(max_size=20),
        expirationTimestamp=st.one_of(
            st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
            st.sampled_from(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]),
        ),
    )
)


@st.composite
def bodies(draw: st.DrawFn, answers: st.SearchStrategy[Any]) -> bytes:
    """Answers as bytes: whole, spoiled at one place, cut short, nested, or no JSON at all."""
    body = json.dumps(draw(answers), ensure_ascii=draw(st.booleans())).encode(
        errors="surrogatepass"
    )
    place = draw(st.integers(0, len(body)))
    match draw(st.integers(0, 5)):
        case 0:
            return body[:place] + draw(st.binary(min_size=1, max_size=4)) + body[place + 1 :]
        case 1:
            return body[:place]
        case 2:
            return body[:place] + b"[" * 50_000 + body[place:]
        case 3:
            return draw(st.binary(max_size=50))
        case _:
            return body


@given(
    status=st.integers(300, 599),
    body=bodies(statuses),
    retry_after=st.one_of(st.text(max_size=10), st.integers().map(str), st.just("9" * 5000)),
)
def test_every_error_answer_is_an_error_of_ours(status: int, body: bytes, retry_after: str) -> None:
    """F-10, F-22: with the status of the answer, a text, and a bounded time to wait."""
    with one_input("error answer"):
        error = error_of_response(status, body, operation="get /x", retry_after=retry_after)
        assert (error.status, str(error)[:6]) == (status, "get /x")
        assert 0 <= (error.retry_after_seconds or 0) <= 300
        is_gone(error)
        is_too_large(error)


@given(body=bodies(st.fixed_dictionaries({"object": statuses})))
def test_every_error_event_is_an_error_of_ours(body: bytes) -> None:
    """F-10: an ERROR event that is none is `Unreadable`."""
    with one_input("error event", refused_by=(Unreadable,)):
        assert isinstance(error_of_event(body, "watch /x"), ApiError)


class Saying:
    """Stands for the client: every request is answered with the next of some bodies."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    async def conditional_get(self, path: str, **_: Any) -> ConditionalResponse:
        """See `Client.conditional_get`."""
        return ConditionalResponse(self._answers.pop(0), "")

    async def call(self, *_: Any, **__: Any) -> bytes:
        """See `Client.call`."""
        return self._answers.pop(0)


@given(
    answers=st.lists(
        st.one_of(bodies(aggregated), bodies(aggregated), bodies(groups)), min_size=4, max_size=4
    )
)
def test_discovery_answers_are_used_or_refused(answers: list[bytes]) -> None:
    """F-10, F-27: aggregated or not, twice in a row, so that there is something to keep."""
    discoverer = CachedDiscoveryClient(Saying(*answers), user_agent="")  # type: ignore[arg-type]
    with one_input("discovery answer", refused_by=(HostError,)):
        asyncio.run(discoverer.fetch())
        asyncio.run(discoverer.fetch())
    for resource in discoverer.api_resources.resources():
        assert discoverer.api_resources.serves(resource.kind)


@given(body=bodies(tokens))
def test_tokens_are_used_or_refused(body: bytes) -> None:
    """F-10: the answer to a TokenRequest."""
    source = ServiceAccountTokens(
        Key("a", "b"),
        Saying(body),  # type: ignore[arg-type]
        user_agent="",
        tls=None,
        clock=lambda: 1e9,
    )
    with one_input("token answer", refused_by=(HostError, ConnectionProblem)):
        access = asyncio.run(source._request_token())
        assert access.headers["Authorization"].isprintable()


@given(text=st.text())
def test_texts_are_scrubbed_in_linear_time(text: str) -> None:
    """F-2: whatever an error says, and however long."""
    with one_input("scrubbed text"):
        without_secrets(text * 1000)
        shown = without_secrets(f"{text} http://bob:S3CRET@proxy.example {text}")
        assert "S3CRET" not in shown


@given(text=st.text(), prefix=st.sampled_from(["", "http://", "https://", "http://u:S3CRET@"]))
def test_proxies_are_used_or_refused(text: str, prefix: str) -> None:
    """F-2: a proxy's URL never holds user information, nor does the error for a bad one."""
    with one_input("proxy URL", refused_by=(ConnectionProblem,)):
        assert "S3CRET" not in usable_proxy(prefix + text, place="proxy-url").url


@given(der=st.binary(max_size=200), prefix=st.sampled_from([b"", b"0\x82\x01\x000\x81\x80"]))
def test_certificates_are_read_or_not(der: bytes, prefix: bytes) -> None:
    """F-84: DER that no library would accept has no times."""
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(prefix + der)
    with one_input("certificate"):
        assert validity_of(pem + b"\n-----END CERTIFICATE-----\n") is None
