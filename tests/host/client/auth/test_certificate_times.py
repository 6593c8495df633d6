"""A client certificate out of its time is told with its dates."""

import datetime as dt
import time
from collections.abc import Callable

import pytest
from host.client.conftest import Authority, Connected

from kcm_host.api.errors import ApiError
from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.tls import validity_of
from kcm_host.client.startup_probe import explain, seen_as_anonymous

DAY = 86400

Showing = Callable[..., Connection]


@pytest.fixture
def showing(connected: Connected, authority: Authority) -> Showing:
    """Connects with a client certificate that is valid for so many days from now on."""

    def make(*, days: int, **user: str) -> Connection:
        issued = authority.issue("me", days=days)
        cluster = {"server": "https://127.0.0.1:1"}
        return connected(cluster=cluster, user={**issued.user, **user})

    return make


def test_an_expired_certificate_is_a_warning(showing: Showing) -> None:
    """F-84: `check` prints it and `run` logs it, with both dates and the remedy."""
    (warning,) = showing(days=-1).warnings
    day = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    assert "the client certificate from kubeconfig" in warning
    assert f"has expired: it was valid from {day - dt.timedelta(days=4):%Y-%m-%d}" in warning
    assert f"to {day:%Y-%m-%d}" in warning
    assert "renew it, or correct the clock here" in warning
    assert showing(days=1).warnings == ()


def test_a_certificate_of_tomorrow_is_a_warning(showing: Showing) -> None:
    """F-84: where the clock here is late, the dates say so as well."""
    certificate = showing(days=1).certificate
    assert certificate is not None
    validity = certificate.validity
    assert validity is not None
    assert "is not valid yet" in validity.problem(time.time() - 6 * DAY)
    assert validity.problem(time.time()) == ""


def test_a_refusal_tells_that_the_certificate_has_expired(showing: Showing) -> None:
    """F-84: both when the server refuses us and when it takes us for somebody anonymous."""
    expired, valid = showing(days=-1), showing(days=1)
    for told in (explain(ApiError("no", status=401), expired), seen_as_anonymous(expired)):
        assert "has expired: it was valid from" in str(told)
    for told in (explain(ApiError("no", status=401), valid), seen_as_anonymous(valid)):
        assert "client certificate" not in str(told)


def test_a_token_beside_a_certificate_counts(showing: Showing) -> None:
    """F-84: where a token says who we are, an old certificate is not the reason."""
    assert showing(days=-1, token="abc").warnings == ()


def test_times_are_read_from_the_certificate(authority: Authority) -> None:
    """F-84: the dates are those that another library reads."""
    validity = validity_of(authority.issue(days=3).certificate.encode())
    assert validity is not None
    now = dt.datetime.now(dt.UTC)
    assert abs(validity.not_after - now - dt.timedelta(days=3)) < dt.timedelta(minutes=5)
    assert abs(now - validity.not_before - dt.timedelta(days=5)) < dt.timedelta(minutes=5)


@pytest.mark.parametrize("text", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END "])
def test_what_is_no_certificate_has_no_times(text: str) -> None:
    """F-84: unreadable is no error; OpenSSL has judged the file before."""
    assert validity_of(text.encode()) is None
