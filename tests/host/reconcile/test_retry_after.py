"""After Retry-After the sender waits, and delays the writes of its own controller alone."""

import asyncio
import time
from datetime import datetime

import pytest
from host.informer.reflector.running_reflector import until
from host.reconcile.worker_rig import CONFIG_MAP, MakeSender
from logged import pairs_of

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Key
from kcm_host.api.writes import Write
from kcm_host.client.errors import error_of_response
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy


def write(namespace: str, name: str) -> Write:
    """Return an apply that makes a ConfigMap."""
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}'
    return Write(
        kind=CONFIG_MAP,
        key=Key(name, namespace),
        verb="patch",
        body=body.encode(),
        content_type="application/apply-patch+yaml",
        query=(("fieldManager", "m"),),
    )


def arrivals(proxy: FaultProxy, name: str) -> list[datetime]:
    """Return when each request for an object reached the proxy."""
    return [request.time for request in proxy.requests(path=f"/configmaps/{name}$")]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_the_write_is_sent_again_when_the_server_said(
    live: MakeSender, fault_proxy: FaultProxy, namespace: str, status: int
) -> None:
    """429 or 5xx with `Retry-After: 1`: no sooner than after 1 s it is sent again (IQ-111)."""
    fault_proxy.add(Answer(status, b"", {"Retry-After": "1"}), method="PATCH", times=1)
    receipt = await live().send(write(namespace, "patient"))
    first, second = arrivals(fault_proxy, "patient")
    assert (second - first).total_seconds() >= 0.99
    assert receipt.attempts == 2
    assert receipt.resource_version


async def test_patience_is_asked_of_one_controller_alone(
    live: MakeSender, fault_proxy: FaultProxy, namespace: str
) -> None:
    """While one controller waits, its other writes wait too and another controller's do not."""
    fault_proxy.add(Answer(429, b"", {"Retry-After": "1"}), path="/first$", times=1)
    ttl, quota = live("ttl"), live("quota")
    first = asyncio.create_task(ttl.send(write(namespace, "first")))
    await until(lambda: ttl.pause_seconds > 0)
    second = asyncio.create_task(ttl.send(write(namespace, "second")))
    await quota.send(write(namespace, "neighbour"))
    await asyncio.gather(first, second)
    asked, again = arrivals(fault_proxy, "first")
    assert arrivals(fault_proxy, "neighbour")[0] < again
    assert (arrivals(fault_proxy, "second")[0] - asked).total_seconds() >= 0.99


async def test_ten_retries_are_the_most(
    live: MakeSender, fault_proxy: FaultProxy, namespace: str
) -> None:
    """A server that never has time gets eleven requests, then the sync gets the error (IQ-111)."""
    fault_proxy.add(Answer(429, b"no time", {"Retry-After": "0"}), method="PATCH")
    with pytest.raises(ApiError) as error:
        await live().send(write(namespace, "never"))
    assert len(arrivals(fault_proxy, "never")) == 11
    assert (error.value.status, error.value.retry_after_seconds) == (429, 0)
    assert "no time" in str(error.value)


@pytest.mark.parametrize(
    ("status", "headers"),
    [(429, {}), (500, {}), (503, {"Retry-After": "soon"}), (403, {"Retry-After": "0"})],
    ids=["429", "500", "no number", "no trouble of the server's"],
)
async def test_without_a_time_the_error_goes_to_the_sync(
    live: MakeSender, fault_proxy: FaultProxy, namespace: str, status: int, headers: dict[str, str]
) -> None:
    """Without usable `Retry-After`, or with another status, one request and the error (IQ-111)."""
    fault_proxy.add(Answer(status, b"", headers), method="PATCH")
    with pytest.raises(ApiError) as error:
        await live().send(write(namespace, "once"))
    assert len(arrivals(fault_proxy, "once")) == 1
    assert error.value.status == status


async def test_retries_take_their_turn_in_the_throttle(
    live: MakeSender, fault_proxy: FaultProxy, namespace: str
) -> None:
    """Each attempt takes a token: three attempts at `qps` 5 take at least 0.4 s (IQ-110)."""
    fault_proxy.add(Answer(503, b"", {"Retry-After": "0"}), method="PATCH", times=2)
    begun = time.monotonic()
    await live(qps=5, burst=1).send(write(namespace, "slow"))
    assert time.monotonic() - begun >= 0.4


@pytest.mark.parametrize("asked", ["31536000", "9" * 5000])
async def test_a_pause_without_end_is_capped_and_told(
    live: MakeSender,
    fault_proxy: FaultProxy,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
    asked: str,
) -> None:
    """F-22: `Retry-After` of a year is five minutes, in the log and for `/status`."""
    year = fault_proxy.add(Answer(503, b"", {"Retry-After": asked}), method="PATCH", times=1)
    sender = live()
    sending = asyncio.create_task(sender.send(write(namespace, "capped")))
    await until(lambda: sender.pause_seconds > 0)
    assert 240 < sender.pause_seconds <= 300
    assert year.hits == 1
    (line,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert line.getMessage() == "writes paused by Retry-After"
    assert pairs_of(line)["seconds"] == "300"
    sending.cancel()
    await asyncio.wait({sending})


@pytest.mark.parametrize("asked", ["\u00b2", "-1", "1.5", "soon", "0x1"])
def test_what_is_no_number_of_seconds_is_no_pause(asked: str) -> None:
    """F-22: whatever stands in the header, the error is the server's."""
    error = error_of_response(503, b"", operation="patch", retry_after=asked)
    assert error.retry_after_seconds is None
