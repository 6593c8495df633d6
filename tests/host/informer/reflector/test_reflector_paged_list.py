"""The first objects by pages, from a server without streaming lists."""

from collections.abc import Callable

import pytest
from host.informer.reflector.running_reflector import (
    STREAMING,
    ConfigMaps,
    StartReflector,
    error_event,
    status,
    until,
)

from kcm_host.informer import list_watch
from kcm_host_testing.faults import Answer, Rewrite
from kcm_host_testing.proxy import FaultProxy

PAGES = {"limit": "2"}


@pytest.fixture(autouse=True)
def pages_of_two(fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse streaming lists and ask for pages of two objects."""
    monkeypatch.setattr(list_watch, "PAGE_SIZE", 2)
    fault_proxy.add(Answer(422, status(422, "Invalid")), query=STREAMING)


async def test_all_pages_are_one_set(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """Pages follow by continue token without a version, and come as one set (IQ-18, IQ-T3)."""
    await config_maps.create("a", "b", "c", "d", "e")
    running = await start_reflector()
    await running.synced()
    await until(lambda: "watch" in running.request_kinds)
    assert running.seen == ["+a", "+b", "+c", "+d", "+e"]
    assert all(change.initial for change in running.handler.changes)
    first, second, third = running.requests[1:4]
    assert dict(first.query) == PAGES
    for page in (second, third):
        assert page.query.keys() == {"limit", "continue"}
        assert page.query["limit"] == "2"
    assert second.query["continue"] != third.query["continue"]
    assert running.reflector.lists == 1


async def test_selectors_are_on_every_page(
    start_reflector: StartReflector, config_maps: ConfigMaps
) -> None:
    """A limited stream is limited on each of its pages and on its watch."""
    await config_maps.create("a", "b", "c", labels={"app": "x"})
    await config_maps.create("other")
    running = await start_reflector(label_selector="app=x")
    await until(lambda: "watch" in running.request_kinds)
    assert running.seen == ["+a", "+b", "+c"]
    assert {request.query["labelSelector"] for request in running.requests} == {"app=x"}


async def test_a_page_that_has_expired_leads_to_one_full_list(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """410 on page 2: everything is asked for once more, without limit (IQ-19, IQ-T4)."""
    await config_maps.create("a", "b", "c")
    expired = Answer(410, status(410, "Expired"))
    fault_proxy.add(expired, when=lambda request: "continue" in request.query)
    running = await start_reflector()
    await running.synced()
    assert running.seen == ["+a", "+b", "+c"]
    assert running.request_kinds[:4] == ["stream", "list", "list", "list"]
    assert dict(running.requests[3].query) == {}


async def test_an_expired_full_list_ends_the_round(
    start_reflector: StartReflector, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """When the full list fails too, the next round begins after a wait (IQ-19, IQ-20)."""
    await config_maps.create("a", "b", "c")
    expired = Answer(410, status(410, "Expired"))
    rule = fault_proxy.add(
        expired, when=lambda request: not request.watch and request.query.get("limit") is None
    )
    cut = fault_proxy.add(expired, when=lambda request: "continue" in request.query)
    running = await start_reflector()
    await until(lambda: rule.hits >= 2)
    assert running.seen == []
    assert "Expired" in running.reflector.error
    cut.remove()
    await running.synced()
    assert running.seen == ["+a", "+b", "+c"]


def _table(line: bytes) -> bytes:
    return line.replace(b'"kind":"ConfigMapList"', b'"kind":"Table"')


def _page_of_a_proxy(_: bytes) -> bytes:
    return b"<html>all is well</html>"


@pytest.mark.parametrize("spoil", [_table, _page_of_a_proxy])
async def test_a_list_that_is_none_leaves_the_store_alone(
    start_reflector: StartReflector,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    spoil: Callable[[bytes], bytes],
) -> None:
    """A table or something unreadable ends the round; the old contents stay (IQ-23)."""
    await config_maps.create("a")
    running = await start_reflector()
    await running.synced()
    await until(lambda: "watch" in running.request_kinds)
    spoiled = fault_proxy.add(Rewrite(spoil), when=lambda request: not request.watch)
    gone = Rewrite(lambda _: error_event(410, "Expired"))
    fault_proxy.add(gone, query={"watch": "true"}, also_open=True, times=1)
    await config_maps.create("b")
    await until(lambda: spoiled.hits >= 2)
    assert running.seen == ["+a"]
    assert len(running.store) == 1
    assert running.reflector.phase == "failed"
    spoiled.remove()
    await running.wait_for_changes("+b")


async def test_a_refused_list_is_told_with_its_remedy(
    start_reflector: StartReflector, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A 403 is told once, with what to grant, and tried again until it is granted (IQ-5)."""
    denied = fault_proxy.add(Answer(403, status(403, "Forbidden")), path="configmaps")
    running = await start_reflector()
    await until(lambda: denied.hits >= 6)
    assert "403 Forbidden" in running.reflector.error
    assert f"grant list and watch on '{running.options.namespace}/configmaps'" in (
        running.reflector.error
    )
    assert [record.message for record in caplog.records].count("watch failed, retrying") == 1
    denied.remove()
    await running.synced()
    assert running.reflector.error == ""
