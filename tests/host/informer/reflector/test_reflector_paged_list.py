"""The first objects by pages, from a server without streaming lists."""

from collections.abc import Callable

import pytest
from host.informer.reflector.mirror import STREAMING, ConfigMaps, Follow, error_event, status, until

from kcm_host.informer import pager
from kcm_host_testing.faults import Answer, Rewrite
from kcm_host_testing.proxy import FaultProxy

PAGES = {"limit": "2"}


@pytest.fixture(autouse=True)
def pages_of_two(fault_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse streaming lists and ask for pages of two objects."""
    monkeypatch.setattr(pager, "PAGE_SIZE", 2)
    fault_proxy.add(Answer(422, status(422, "Invalid")), query=STREAMING)


async def test_all_pages_are_one_set(follow: Follow, config_maps: ConfigMaps) -> None:
    """Pages follow by continue token without a version, and come as one set (IQ-18, IQ-T3)."""
    await config_maps.create("a", "b", "c", "d", "e")
    mirror = await follow()
    await mirror.synced()
    await until(lambda: "watch" in mirror.shapes)
    assert mirror.heard == ["+a", "+b", "+c", "+d", "+e"]
    assert all(change.initial for change in mirror.reader.changes)
    first, second, third = mirror.requests[1:4]
    assert dict(first.query) == PAGES
    for page in (second, third):
        assert page.query.keys() == {"limit", "continue"}
        assert page.query["limit"] == "2"
    assert second.query["continue"] != third.query["continue"]
    assert mirror.reflector.lists == 1


async def test_the_version_is_that_of_the_first_page(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """Later pages may claim another version: the watch begins at the first one's (IQ-18)."""
    version = await config_maps.create("a", "b", "c")

    def claim_another(line: bytes) -> bytes:
        return line.replace(b'"metadata":{"resourceVersion":"', b'"metadata":{"resourceVersion":"9')

    pages = fault_proxy.add(
        Rewrite(claim_another), when=lambda request: "continue" in request.query
    )
    mirror = await follow()
    await until(lambda: "watch" in mirror.shapes)
    (watch,) = (request for request in mirror.requests if request.watch and not _streams(request))
    # The server's own leases may have moved the version on before the first page; no 9 leads.
    assert int(version) <= int(watch.query["resourceVersion"]) < int(f"9{version}")
    assert pages.hits == 1


async def test_selectors_are_on_every_page(follow: Follow, config_maps: ConfigMaps) -> None:
    """A limited stream is limited on each of its pages and on its watch."""
    await config_maps.create("a", "b", "c", labels={"app": "x"})
    await config_maps.create("other")
    mirror = await follow(label_selector="app=x")
    await until(lambda: "watch" in mirror.shapes)
    assert mirror.heard == ["+a", "+b", "+c"]
    assert {request.query["labelSelector"] for request in mirror.requests} == {"app=x"}


async def test_a_page_that_has_expired_leads_to_one_full_list(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """410 on page 2: everything is asked for once more, without limit (IQ-19, IQ-T4)."""
    await config_maps.create("a", "b", "c")
    expired = Answer(410, status(410, "Expired"))
    fault_proxy.add(expired, when=lambda request: "continue" in request.query)
    mirror = await follow()
    await mirror.synced()
    assert mirror.heard == ["+a", "+b", "+c"]
    assert mirror.shapes[:4] == ["stream", "list", "list", "list"]
    assert dict(mirror.requests[3].query) == {}


async def test_an_expired_full_list_ends_the_round(
    follow: Follow, fault_proxy: FaultProxy, config_maps: ConfigMaps
) -> None:
    """When the full list fails too, the next round begins after a wait (IQ-19, IQ-20)."""
    await config_maps.create("a", "b", "c")
    expired = Answer(410, status(410, "Expired"))
    rule = fault_proxy.add(
        expired, when=lambda request: not request.watch and request.query.get("limit") is None
    )
    cut = fault_proxy.add(expired, when=lambda request: "continue" in request.query)
    mirror = await follow()
    await until(lambda: rule.hits >= 2)
    assert mirror.heard == []
    assert "Expired" in mirror.reflector.error
    cut.remove()
    await mirror.synced()
    assert mirror.heard == ["+a", "+b", "+c"]


def _table(line: bytes) -> bytes:
    return line.replace(b'"kind":"ConfigMapList"', b'"kind":"Table"')


def _page_of_a_proxy(_: bytes) -> bytes:
    return b"<html>all is well</html>"


@pytest.mark.parametrize("spoil", [_table, _page_of_a_proxy])
async def test_a_list_that_is_none_leaves_the_store_alone(
    follow: Follow,
    fault_proxy: FaultProxy,
    config_maps: ConfigMaps,
    spoil: Callable[[bytes], bytes],
) -> None:
    """A table or something unreadable ends the round; the old contents stay (IQ-23)."""
    await config_maps.create("a")
    mirror = await follow()
    await mirror.synced()
    await until(lambda: "watch" in mirror.shapes)
    spoiled = fault_proxy.add(Rewrite(spoil), when=lambda request: not request.watch)
    gone = Rewrite(lambda _: error_event(410, "Expired"))
    fault_proxy.add(gone, query={"watch": "true"}, also_open=True, times=1)
    await config_maps.create("b")
    await until(lambda: spoiled.hits >= 2)
    assert mirror.heard == ["+a"]
    assert len(mirror.store) == 1
    assert mirror.reflector.phase == "failed"
    spoiled.remove()
    await mirror.hears("+b")


async def test_a_refused_list_is_told_with_its_remedy(
    follow: Follow, fault_proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A 403 is told once, with what to grant, and tried again until it is granted (IQ-5)."""
    denied = fault_proxy.add(Answer(403, status(403, "Forbidden")), path="configmaps")
    mirror = await follow()
    await until(lambda: denied.hits >= 6)
    assert "403 Forbidden" in mirror.reflector.error
    assert f"grant list and watch on '{mirror.options.namespace}/configmaps'" in (
        mirror.reflector.error
    )
    assert [record.message for record in caplog.records].count("watch failed, retrying") == 1
    denied.remove()
    await mirror.synced()
    assert mirror.reflector.error == ""


def _streams(request: object) -> bool:
    return "sendInitialEvents" in getattr(request, "query", {})
