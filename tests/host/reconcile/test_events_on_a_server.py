"""Events as a real server takes them, and as its users see them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from host.reconcile.worker_rig import CONFIG_MAP, NODE, MakeSender

from kcm_host.api.kinds import Key
from kcm_host.reconcile.event_recorder import EventRecorder
from kcm_host_testing.faults import Cut, Point
from kcm_host_testing.proxy import FaultProxy

Record = Callable[..., None]
EVENTS = "/events"


@pytest.fixture
async def record(live: MakeSender, namespace: str) -> AsyncIterator[Record]:
    """Records a warning about a ConfigMap, and lets it be sent at once."""
    recorder = EventRecorder(live("acme"), jitter=lambda: 0.01)
    task = asyncio.create_task(recorder.run())

    def record(message: str = "full", **fields: Any) -> None:
        usual = {"uid": "u-1", "version": "7", "reason": "Full", "warning": True}
        kind = fields.pop("kind", CONFIG_MAP)
        key = fields.pop("key", Key("one", namespace))
        words = {**usual, "message": message, "component": "acme", **fields}
        recorder.record(kind, key, **words)

    yield record
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
def events(core: Any, namespace: str) -> Callable[[], list[Any]]:
    """Reads the Events of the namespace, those that were made first first."""

    def read() -> list[Any]:
        items = core.list_namespaced_event(namespace).items
        return sorted(items, key=lambda event: int(event.metadata.name.partition(".")[2], 16))

    return read


async def answered(proxy: FaultProxy, number: int, *, path: str) -> list[Any]:
    """Return the requests for Events once so many are over."""

    def over(request: Any) -> bool:
        return not request.open

    return await asyncio.to_thread(proxy.wait_for_requests, number, path=path, when=over)


async def test_thirty_equal_warnings_are_one_event(
    record: Record, events: Any, fault_proxy: FaultProxy, namespace: str
) -> None:
    """One create, then patches up to a count of 25, and nothing more (IQ-T23)."""
    for _ in range(30):
        record()
    record("the last", key=Key("two", namespace))
    requests = await answered(fault_proxy, 26, path=f"/{namespace}{EVENTS}")
    assert [one.method for one in requests] == ["POST", *["PATCH"] * 24, "POST"]
    one, _ = events()
    assert (one.count, one.type, one.reason, one.message) == (25, "Warning", "Full", "full")
    about = one.involved_object
    assert (about.kind, about.name, about.uid) == ("ConfigMap", "one", "u-1")
    assert (about.api_version, about.resource_version) == ("v1", "7")
    assert (one.source.component, one.reporting_component) == ("acme", "acme")
    assert one.first_timestamp <= one.last_timestamp


async def test_an_event_about_something_of_the_cluster(
    record: Record, core: Any, fault_proxy: FaultProxy, namespace: str
) -> None:
    """It is found in `default`; a name that no Event can have is no obstacle (IQ-121)."""
    record(kind=NODE, key=Key(f"system:{namespace}"), message=namespace)
    await answered(fault_proxy, 1, path=f"/default{EVENTS}")
    found = core.list_namespaced_event("default").items
    (one,) = [event for event in found if event.message == namespace]
    assert one.involved_object.name == f"system:{namespace}"


async def test_a_lost_answer_makes_no_second_event(
    record: Record, events: Any, fault_proxy: FaultProxy, namespace: str
) -> None:
    """The create that arrived all the same is found by its name when it is sent again (IQ-126)."""
    rule = fault_proxy.add(Cut(Point.ANSWER), path=f"/{namespace}{EVENTS}", times=1)
    record()
    record("the next", reason="Other")
    await answered(fault_proxy, 3, path=f"/{namespace}{EVENTS}")
    assert rule.hits == 1
    assert [(one.message, one.count) for one in events()] == [("full", 1), ("the next", 1)]
