"""The discovery poller: flapping answers, and the difference between watches (F-18, F-28)."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api import AnyWatch, Change, Key, Kind, Unreachable, View, Watch
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import user_agent_of
from kcm_host.informer.shared_informer import EventHandler
from kcm_host.runtime.discovery_poller import (
    DEBOUNCE_SECONDS,
    HOST,
    INITIAL_DELAY_SECONDS,
    MAX_DELAY_SECONDS,
    MIN_RETURNS,
    POLL_SECONDS,
    RETRY_SECONDS,
    STABLE_SECONDS,
    DefinitionWatches,
    FlapDetector,
    difference,
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


class Client:
    """A client whose discovery answers have the next of these kinds."""

    def __init__(self, kinds: Iterator[str]) -> None:
        self.kinds = kinds

    async def conditional_get(self, path: str, *, etag: str, **_: Any) -> News | None:
        """See `Client.conditional_get`."""
        kinds = next(self.kinds) if path == "/apis" else "a"
        return News(answer(kinds), kinds) if kinds != etag else None


class Listener:
    """A controller that records when it is notified, and what is served then."""

    def __init__(self, client: CachedDiscoveryClient) -> None:
        self._client = client
        self.depends_on_discovery = True
        self.times: list[float] = []
        self.last = ""

    def discovery_changed(self) -> None:
        """See `DiscoveryListener`."""
        self.times.append(asyncio.get_running_loop().time())
        kinds = {one.kind.name for one in self._client.api_resources.resources()}
        self.last = "".join(sorted(kinds))


class Informers:
    """An informer factory that records its handlers, which a test calls."""

    def __init__(self) -> None:
        self.handlers: dict[EventHandler, str] = {}
        self.retries = 0

    def add_event_handler(
        self, controller: str, watch: AnyWatch, handler: EventHandler, *, optional: bool
    ) -> None:
        """See `InformerFactory`."""
        assert (controller, optional) == (HOST, True)
        self.handlers[handler] = str(watch.kind)

    async def remove_event_handler(self, handler: EventHandler) -> None:
        """See `InformerFactory`."""
        del self.handlers[handler]

    def start(self) -> None:
        """Do nothing: the test notifies."""

    def retry(self) -> None:
        """Count the calls."""
        self.retries += 1

    def change(self, **values: Any) -> None:
        """Notify all handlers of a change of a definition."""
        for handler in self.handlers:
            handler.on_change(Change(kind=SECRET, key=Key("a"), old=None, new=Thing(), **values))

    def synced(self) -> None:
        """Notify all handlers that the definitions are listed."""
        for handler in self.handlers:
            handler.on_synced()


@pytest.fixture
def informers() -> Informers:
    """Return informers of definitions."""
    return Informers()


Poll = Callable[[Iterator[str]], Any]


@pytest.fixture
async def poll(informers: Informers) -> AsyncIterator[Poll]:
    """Poll a client with these answers until the test ends."""
    tasks = []

    async def start(kinds: Iterator[str]) -> Listener:
        client = CachedDiscoveryClient(Client(kinds), user_agent=user_agent_of("host"))  # type: ignore[arg-type]
        await client.fetch()
        listener = Listener(client)
        definitions = DefinitionWatches(informers)  # type: ignore[arg-type]
        tasks.append(asyncio.create_task(poll_discovery(client, [listener], definitions)))
        return listener

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.virtual_time
async def test_flapping_answers_are_delayed(poll: Poll, caplog: pytest.LogCaptureFixture) -> None:
    """The delay grows, and the log has one line (F-28)."""
    listener = await poll(itertools.cycle(("ab", "a")))
    await asyncio.sleep(3 * HOUR)
    # So many notifications come before the answers count as flapping.
    first = 2 * MIN_RETURNS - 1
    waits = [later - sooner for sooner, later in itertools.pairwise(listener.times[first:])]
    assert waits[0] >= INITIAL_DELAY_SECONDS
    assert waits[-1] >= MAX_DELAY_SECONDS
    assert len(listener.times) <= first + 4 + 3 * HOUR / MAX_DELAY_SECONDS
    lines = [one for one in caplog.records if one.message == FLAPS]
    assert len(lines) == 1


@pytest.mark.virtual_time
async def test_a_new_kind_is_found_while_answers_flap(poll: Poll) -> None:
    """Its notification comes within the maximum delay (F-28)."""
    flapping = itertools.islice(itertools.cycle(("a", "ab")), 200)
    listener = await poll(itertools.chain(flapping, itertools.cycle(("ac", "abc"))))
    await asyncio.sleep(200 * POLL_SECONDS + MAX_DELAY_SECONDS + 2 * POLL_SECONDS)
    assert "c" in listener.last


@pytest.mark.virtual_time
async def test_stable_answers_are_not_delayed(poll: Poll, caplog: pytest.LogCaptureFixture) -> None:
    """The last answer is notified, and after a stable time there is no delay (F-28)."""
    kinds = [*itertools.islice(itertools.cycle(("a", "ab")), 21), *["a"] * 60, "abc"]
    listener = await poll(itertools.chain(kinds, itertools.repeat("abcd")))
    await asyncio.sleep(20 * POLL_SECONDS + STABLE_SECONDS + POLL_SECONDS)
    assert listener.last == "a"
    before = len(listener.times)
    await asyncio.sleep(HOUR)
    assert len(listener.times) == before + 2
    assert listener.last == "abcd"
    assert len([one for one in caplog.records if one.message == FLAPS]) == 1


@pytest.mark.virtual_time
async def test_added_kinds_are_not_delayed(poll: Poll, caplog: pytest.LogCaptureFixture) -> None:
    """Many definitions, created one after the other, do not flap (F-28)."""
    letters = "abcdefghijklmnop"
    kinds = [letters[: length + 1] for length in range(len(letters))]
    listener = await poll(itertools.chain(kinds, itertools.repeat(letters)))
    await asyncio.sleep(HOUR)
    assert len(listener.times) == len(letters) - 1
    assert [one for one in caplog.records if one.message == FLAPS] == []


class Served:
    """Discovery answers: what is served now, and the times of the polls."""

    def __init__(self) -> None:
        self.now = "a"
        self.error: Unreachable | None = None
        self.times: list[float] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.times.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        return self.now


@pytest.mark.virtual_time
async def test_discovery_is_polled_when_a_definition_changes(
    poll: Poll, informers: Informers
) -> None:
    """
    After a moment, for all changes until then; failed informers are tried again (F-70).

    Several times, because discovery shows a kind some time before its objects are served.
    """
    served = Served()
    listener = await poll(served)
    await asyncio.sleep(1)
    assert sorted(informers.handlers.values()) == [
        "apiservices.apiregistration.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    ]
    served.now = "ab"
    informers.change()
    await asyncio.sleep(DEBOUNCE_SECONDS / 2)
    informers.change()
    await asyncio.sleep(DEBOUNCE_SECONDS / 2 + 0.01)
    assert (listener.last, informers.retries) == ("ab", 1)
    await asyncio.sleep(sum(RETRY_SECONDS))
    assert (listener.times[1:], informers.retries) == ([], 1 + len(RETRY_SECONDS))
    await asyncio.sleep(2 * POLL_SECONDS)
    assert informers.retries == 1 + len(RETRY_SECONDS), "regular polls find no change"


@pytest.mark.virtual_time
async def test_a_definition_that_takes_effect_later_is_polled_for_again(
    poll: Poll, informers: Informers
) -> None:
    """At growing distances, whenever discovery shows the change, then every 30 s again (F-70)."""
    served = Served()
    listener = await poll(served)
    await asyncio.sleep(1)
    begun = asyncio.get_running_loop().time()
    informers.change()
    await asyncio.sleep(DEBOUNCE_SECONDS + RETRY_SECONDS[0] + 1)
    served.now = "ab"
    await asyncio.sleep(60)
    waits = [time - begun for time in served.times if time > begun]
    polls = list(itertools.accumulate([DEBOUNCE_SECONDS, *RETRY_SECONDS]))
    assert waits == pytest.approx([*polls, polls[-1] + POLL_SECONDS])
    assert listener.times == pytest.approx([begun + polls[2]])
    assert informers.retries == 2, "none before discovery shows it"


@pytest.mark.virtual_time
async def test_discovery_is_polled_once_definitions_are_listed(
    poll: Poll, informers: Informers
) -> None:
    """One may have been created after discovery was read and before they were listed (F-70)."""
    served = Served()
    listener = await poll(served)
    await asyncio.sleep(1)
    served.now = "ab"
    informers.change(initial=True)
    await asyncio.sleep(POLL_SECONDS / 2)
    assert listener.times == [], "what was there when they were listed is no change"
    informers.synced()
    await asyncio.sleep(DEBOUNCE_SECONDS + 0.01)
    assert listener.last == "ab"


@pytest.mark.virtual_time
async def test_definitions_are_watched_while_a_controller_depends_on_discovery(
    poll: Poll, informers: Informers
) -> None:
    """The host keeps no watch that nothing needs, and polls nothing then (F-70)."""
    served = Served()
    listener = await poll(served)
    listener.depends_on_discovery = False
    await asyncio.sleep(POLL_SECONDS + 1)
    polls = len(served.times)
    await asyncio.sleep(HOUR)
    assert (informers.handlers, len(served.times)) == ({}, polls)
    listener.depends_on_discovery = True
    await asyncio.sleep(2 * POLL_SECONDS)
    assert len(informers.handlers) == 2
    assert len(served.times) > polls


@pytest.mark.virtual_time
async def test_only_changes_are_notified(poll: Poll) -> None:
    """An unchanged answer or an error is not notified (RQ-232, RQ-233)."""
    served = Served()
    listener = await poll(served)
    await asyncio.sleep(HOUR)
    served.error = Unreachable("no answer")
    await asyncio.sleep(HOUR)
    assert listener.times == []
    served.error, served.now = None, "ab"
    await asyncio.sleep(2 * POLL_SECONDS)
    assert (len(listener.times), listener.last) == (1, "ab")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=60))
def test_the_last_answer_is_always_notified(answers: list[tuple[int, int]]) -> None:
    """For any answers in any order, the last one is notified in the end (F-28)."""
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


SECRET = Kind(group="", version="v1", name="Secret", resource="secrets")


class Thing(msgspec.Struct, frozen=True):
    """Reads nothing."""


class Other(msgspec.Struct, frozen=True):
    """Reads nothing either."""


def keys(change: Change[Any], view: View) -> Iterable[Key]:
    """Queue nothing."""
    return []


def values(key: Key, thing: Thing) -> Iterable[str]:
    """Find nothing."""
    return []


WATCH: Watch[Any] = Watch(kind=SECRET, model=Thing, keys=keys, indexes={"a": values})


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": Kind(group="", version="v2", name="Secret", resource="secrets")},
        {"model": Other},
        {"name": "other"},
        {"namespace": "ns"},
        {"label_selector": "a=b"},
        {"field_selector": "metadata.name=a"},
        {"indexes": {}},
        {"indexes": {"b": values}},
        {"notify_unchanged": True},
        {"debounce": timedelta(seconds=1)},
        {"required": False},
        {"full_object": True},
    ],
    ids=str,
)
def test_each_declared_field_is_compared(changes: dict[str, Any]) -> None:
    """A run restarts when any of them would be different now (F-18)."""
    assert difference([WATCH], [replace(WATCH, **changes)])


def test_functions_are_not_compared() -> None:
    """A new instance returns new functions, which is no difference (F-18)."""
    other = replace(WATCH, keys=lambda _change, _view: [], indexes={"a": lambda _key, _thing: []})
    assert not difference([WATCH], [other])
