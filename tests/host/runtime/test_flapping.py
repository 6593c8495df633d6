"""Behind API servers of two versions the answers alternate; controllers bear it (F-28)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import user_agent_of
from kcm_host.runtime.discovery_poller import (
    INITIAL_DELAY_SECONDS,
    MAX_DELAY_SECONDS,
    MIN_RETURNS,
    POLL_SECONDS,
    STABLE_SECONDS,
    FlapDetector,
    poll_discovery,
)

FLAPS = "served kinds flapping"
HOUR = 3600.0


def answer(kinds: str) -> bytes:
    """Return a discovery answer with these kinds, one a letter."""
    resources = [
        {
            "resource": f"{kind}s",
            "responseKind": {"group": "", "version": "v1", "kind": kind},
            "scope": "Namespaced",
            "verbs": ["list"],
        }
        for kind in kinds
    ]
    groups = [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": resources}]}]
    return msgspec.json.encode({"kind": "APIGroupDiscoveryList", "items": groups})


class News(msgspec.Struct):
    """What `Client.conditional_get` returns."""

    body: bytes
    etag: str


class Address:
    """An address in the place of a client; `kinds` says which kinds the next answer names."""

    def __init__(self, kinds: Iterator[str]) -> None:
        self.kinds = kinds

    async def conditional_get(self, path: str, *, etag: str, **_: Any) -> News | None:
        """See `Client.conditional_get`."""
        kinds = next(self.kinds) if path == "/apis" else "a"
        return News(answer(kinds), kinds) if kinds != etag else None


class Told:
    """A controller that notes when it is told of a change, and what is served then."""

    depends_on_discovery = True

    def __init__(self, discoverer: CachedDiscoveryClient) -> None:
        self._discoverer = discoverer
        self.times: list[float] = []
        self.last = ""

    def discovery_changed(self) -> None:
        """See `DiscoveryListener`."""
        self.times.append(asyncio.get_running_loop().time())
        kinds = {one.kind.name for one in self._discoverer.api_resources.resources()}
        self.last = "".join(sorted(kinds))


Follow = Callable[[Iterator[str]], Any]


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    """Follow what an address says until the test ends."""
    tasks = []

    async def start(kinds: Iterator[str]) -> Told:
        discoverer = CachedDiscoveryClient(Address(kinds), user_agent=user_agent_of("host"))  # type: ignore[arg-type]
        await discoverer.fetch()
        told = Told(discoverer)
        tasks.append(asyncio.create_task(poll_discovery(discoverer, [told])))
        return told

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.virtual_time
async def test_what_alternates_is_told_with_growing_waits(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """Not each 30 s, and one line of the log says so, once (F-28)."""
    told = await follow(itertools.cycle(("ab", "a")))
    await asyncio.sleep(3 * HOUR)
    # Both answers come so often before they are known to flap.
    first = 2 * MIN_RETURNS - 1
    waits = [later - sooner for sooner, later in itertools.pairwise(told.times[first:])]
    assert waits[0] >= INITIAL_DELAY_SECONDS
    assert waits[-1] >= MAX_DELAY_SECONDS
    assert len(told.times) <= first + 4 + 3 * HOUR / MAX_DELAY_SECONDS
    lines = [one for one in caplog.records if one.message == FLAPS]
    assert len(lines) == 1


@pytest.mark.virtual_time
async def test_a_kind_that_comes_while_answers_alternate_is_found(follow: Follow) -> None:
    """Later than else, but within the longest wait (F-28)."""
    flapping = itertools.islice(itertools.cycle(("a", "ab")), 200)
    told = await follow(itertools.chain(flapping, itertools.cycle(("ac", "abc"))))
    await asyncio.sleep(200 * POLL_SECONDS + MAX_DELAY_SECONDS + 2 * POLL_SECONDS)
    assert "c" in told.last


@pytest.mark.virtual_time
async def test_what_is_stable_again_is_told_at_once(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """The last answer is told in the end, and after a quiet time everything is as before (F-28)."""
    kinds = [*itertools.islice(itertools.cycle(("a", "ab")), 21), *["a"] * 60, "abc"]
    told = await follow(itertools.chain(kinds, itertools.repeat("abcd")))
    await asyncio.sleep(20 * POLL_SECONDS + STABLE_SECONDS + POLL_SECONDS)
    assert told.last == "a"
    before = len(told.times)
    await asyncio.sleep(HOUR)
    assert len(told.times) == before + 2
    assert told.last == "abcd"
    assert len([one for one in caplog.records if one.message == FLAPS]) == 1


@pytest.mark.virtual_time
async def test_kinds_that_only_come_are_told_at_once(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """Many definitions made one after the other are no flapping (F-28)."""
    letters = "abcdefghijklmnop"
    kinds = [letters[: length + 1] for length in range(len(letters))]
    told = await follow(itertools.chain(kinds, itertools.repeat(letters)))
    await asyncio.sleep(HOUR)
    assert len(told.times) == len(letters) - 1
    assert [one for one in caplog.records if one.message == FLAPS] == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=60))
def test_the_last_answer_is_always_told(answers: list[tuple[int, int]]) -> None:
    """Whatever comes in whatever order, in the end all know what is served (F-28)."""
    now = 0.0
    flapping = FlapDetector(0, lambda: now)
    present = known = 0
    for served, polls in answers:
        if served != present:
            present = served
            flapping.changed(served)
        for _ in range(polls):
            known = present if flapping.is_due() else known
            now += POLL_SECONDS
    waited = 0.0
    while waited <= MAX_DELAY_SECONDS:
        known = present if flapping.is_due() else known
        now += POLL_SECONDS
        waited += POLL_SECONDS
    assert known == present
