"""Who waits for news of one object hears of all that is told of it, and of nothing else."""

import asyncio
from collections.abc import Callable

import pytest
from host.informer.stream_lines import A, B, C, Pod, entry, replace_list, undecodable_entry

from kcm_host.informer.store import Store

NEWS: dict[str, Callable[[Store[Pod]], object]] = {
    "another version, the same fields": lambda store: store.put(A, entry("2", node="n1")),
    "other fields": lambda store: store.put(A, entry("2", node="n2")),
    "a version that cannot be decoded": lambda store: store.put(A, undecodable_entry("2")),
    "its end": lambda store: store.delete(A, resource_version="2"),
    "a list with it": lambda store: replace_list(store, {A: entry("1", node="n1")}),
    "a list without it": lambda store: replace_list(store, {B: entry("1")}),
}


async def turns() -> None:
    """Return when every task that can has run."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("news", NEWS.values(), ids=NEWS)
async def test_all_who_wait_hear_of_it(
    store: Store[Pod], news: Callable[[Store[Pod]], object]
) -> None:
    """Whatever is told of the object, changed fields or not, and each of those who wait."""
    store.put(A, entry("1", node="n1"))
    waiting = [asyncio.create_task(store.wait_for_change(A)) for _ in range(2)]
    await turns()
    news(store)
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)


async def test_news_of_others_is_not_heard(store: Store[Pod]) -> None:
    """Neither of another object nor of a list that never had the one awaited."""
    waiting = asyncio.create_task(store.wait_for_change(A))
    await turns()
    store.put(B, entry("1"))
    store.delete(B)
    replace_list(store, {B: entry("2"), C: entry("2")})
    await turns()
    assert not waiting.done()
    store.put(A, entry("3"))
    await waiting


async def test_who_gives_up_takes_nothing_from_others(store: Store[Pod]) -> None:
    """Cancelled before the news or in the turn of the news, the others hear of it once."""
    first, second, third = (asyncio.create_task(store.wait_for_change(A)) for _ in range(3))
    await turns()
    first.cancel()
    await turns()
    second.cancel()
    store.put(A, entry("1"))
    await third
    await asyncio.gather(first, second, return_exceptions=True)
    assert (first.cancelled(), second.cancelled()) == (True, True)
    again = asyncio.create_task(store.wait_for_change(A))
    await turns()
    assert not again.done()
    store.put(A, entry("2"))
    await again


def test_versions_are_those_told_last(store: Store[Pod]) -> None:
    """Also of an object that cannot be decoded; None for one that is not there."""
    store.put(A, entry("1"))
    store.put(B, undecodable_entry("2"))
    assert [store.resource_version_of(key) for key in (A, B, C)] == ["1", "2", None]
    assert store.keys() == (A, B)
