"""What a stream asks for: its namespace, its selectors, and how much of each object."""

import pytest
from host.informer.reflector.running_reflector import (
    CONFIG_MAP,
    STREAMING,
    ConfigMaps,
    StartReflector,
    status,
    until,
)

from kcm_host.client.rest import METADATA_LIST, METADATA_ONLY
from kcm_host.informer.list_watch import ListWatchOptions
from kcm_host_testing.faults import Answer
from kcm_host_testing.proxy import FaultProxy


@pytest.mark.parametrize(
    ("selected", "query", "found"),
    [
        ({"label_selector": "app in (x,y)"}, {"labelSelector": "app in (x,y)"}, ["+x", "+y"]),
        ({"field_selector": "metadata.name=y"}, {"fieldSelector": "metadata.name=y"}, ["+y"]),
        (
            {"label_selector": "app=x", "field_selector": "metadata.name!=y"},
            {"labelSelector": "app=x", "fieldSelector": "metadata.name!=y"},
            ["+x"],
        ),
    ],
    ids=["labels", "fields", "both"],
)
async def test_selectors_limit_a_stream(
    start_reflector: StartReflector,
    config_maps: ConfigMaps,
    selected: dict[str, str],
    query: dict[str, str],
    found: list[str],
) -> None:
    """Selectors go to the server as they are; only what they select comes back."""
    for name in ("x", "y", "z"):
        await config_maps.create(name, labels={"app": name})
    running = await start_reflector(**selected)
    await running.synced()
    assert sorted(running.seen) == found
    (request,) = running.requests
    assert query.items() <= request.query.items()


async def test_an_object_that_leaves_the_selection_is_gone(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """Losing the label is a delete for this stream."""
    await config_maps.create("a", labels={"app": "x"})
    running = await start_reflector(label_selector="app=x")
    await running.synced()
    await config_maps.relabel("a", {"app": "y"})
    await running.wait_for_changes("-a")


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming list", "pages"])
async def test_metadata_alone_is_asked_for(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    *,
    streaming: bool,
) -> None:
    """A stream of metadata says so in Accept, and gets no more than that."""
    if not streaming:
        fault_proxy.add(Answer(422, status(422, "Invalid")), query=STREAMING)
    await config_maps.create("a")
    await config_maps.change("a", "x" * 10_000)
    slim, whole = await start_reflector(metadata_only=True), await start_reflector()
    await slim.synced()
    await whole.synced()
    assert [model.data for _, model in slim.store.items()] == [{}]
    assert [len(model.data["n"]) for _, model in whole.store.items()] == [10_000]
    await config_maps.create("b")
    await slim.wait_for_changes("+b")
    for request in fault_proxy.requests(path="configmaps"):
        assert request.headers["accept"] in {METADATA_ONLY, METADATA_LIST, "application/json"}
    await until(lambda: len(_sizes(slim)) == len(_sizes(whole)))
    if not streaming:
        assert _sizes(slim)[0] < 2_000
        assert _sizes(whole)[0] > 10_000


def test_the_time_a_watch_may_last_is_drawn_anew_each_time() -> None:
    """TimeoutSeconds is a random whole number of at least 300 and less than 600 (IQ-10, IQ-24)."""
    drawn = {
        int(dict(ListWatchOptions(CONFIG_MAP).watch_query("1", initial=False))["timeoutSeconds"])
        for _ in range(500)
    }
    assert min(drawn) >= 300
    assert max(drawn) < 600
    assert len(drawn) > 100


def _sizes(running: object) -> list[int]:
    records = getattr(running, "records", [])
    return [record.received_bytes for record in records if record.verb == "list"]
