"""A controller in memory: what it reads, queues and writes, and what the harness refuses."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from testing.harness_controllers import (
    CONFIG_MAP,
    LABEL,
    NAMESPACE,
    SECRET,
    WEBSITE,
    Acting,
    Data,
    Initial,
    after,
    config_map,
    harness_with_a,
    later,
    permissions,
)

from kcm_host.api import (
    EVENT,
    Conflict,
    Done,
    HostError,
    Key,
    NotFound,
    Timer,
    UndeclaredRead,
    UndeclaredWrite,
    Unreachable,
)
from kcm_host_testing.harness import ControllerHarness, HarnessError

A = Key("a", "ns")


def test_a_new_object_is_queued_synced_and_written() -> None:
    """The write is recorded, changes the object, and comes back as a change; then all is quiet."""
    harness = ControllerHarness(Initial())
    key = harness.put(NAMESPACE, {"metadata": {"name": "a"}})
    harness.start()
    assert harness.enqueued == [key]
    assert harness.writes == []
    harness.run_until_idle()
    assert harness.get(NAMESPACE, "a")["metadata"]["labels"] == {LABEL: "a"}
    assert [str(write) for write in harness.writes] == ["patch namespaces a"]
    assert harness.enqueued == [key, key], "the change of its own write queues the key too"
    assert [each.result for each in harness.outcomes] == [Done(), Done()]
    harness.writes.clear()
    assert harness.sync("a") == Done()
    assert harness.writes == []


def test_objects_can_be_yaml_and_get_the_metadata_of_a_server() -> None:
    """uid, resourceVersion, generation and creationTimestamp are there; what was given stays."""
    harness = ControllerHarness(Initial())
    harness.put(NAMESPACE, "metadata: {name: a, uid: mine}")
    meta = harness.get(NAMESPACE, "a")["metadata"]
    assert meta.pop("resourceVersion").isdecimal()
    created = "2026-01-01T00:00:00Z"
    assert meta == {"name": "a", "uid": "mine", "generation": 1, "creationTimestamp": created}


def test_events_are_recorded() -> None:
    """An Event of a stored object is recorded, one of an unknown object dropped, as in the host."""

    async def sync(key: Key, view: Any, writer: Any) -> None:
        for name in ("a", "unknown"):
            writer.event(CONFIG_MAP, Key(name, "ns"), reason="Odd", message=name)

    harness = harness_with_a(sync, writes=permissions("create", "patch", kind=EVENT))
    harness.run_until_idle()
    assert list(map(str, harness.events)) == ["Warning Odd configmaps ns/a: a"]


def test_undeclared_reads_and_writes_are_refused() -> None:
    """As in the host, with its texts."""

    async def read(key: Key, view: Any, writer: Any) -> None:
        view.of(SECRET, Data)

    async def write(key: Key, view: Any, writer: Any) -> None:
        await writer.delete(CONFIG_MAP, key)

    with pytest.raises(UndeclaredRead, match="add a Watch"):
        ControllerHarness(Acting(read)).sync(A)
    harness = harness_with_a(write)
    with pytest.raises(UndeclaredWrite, match="tried to delete 'configmaps'"):
        harness.sync("ns/a")
    assert harness.writes == []


def test_a_sync_does_not_see_its_own_write() -> None:
    """The event of a write arrives after the sync, as from a server; the next sync sees it."""
    seen = []

    async def sync(key: Key, view: Any, writer: Any) -> None:
        objects = view.of(CONFIG_MAP, Data)
        before = dict(objects.get(key.name, key.namespace).data)
        await writer.apply(CONFIG_MAP, key, {"data": {"b": "2"}}, field_manager="me")
        seen.append((before, dict(objects.get(key.name, key.namespace).data)))

    harness = harness_with_a(sync, writes=permissions("patch"))
    harness.run_until_idle()
    assert seen == [({}, {}), ({"b": "2"}, {"b": "2"})]


@pytest.mark.parametrize("in_keys", [False, True], ids=["sync", "keys"])
def test_a_changed_object_of_the_view_is_an_error(in_keys: bool) -> None:
    """The function, the kind and the key are named (F-64)."""

    def change(data: Any) -> None:
        data.data["b"] = "2"

    async def sync(key: Key, view: Any, writer: Any) -> None:
        change(view.of(CONFIG_MAP, Data).get(key.name, key.namespace))

    def keys(changed: Any, view: Any) -> list[Key]:
        change(changed.new)
        return [changed.key]

    harness = harness_with_a(keys=keys) if in_keys else harness_with_a(sync)
    function = "'keys' of Acting.* for 'ns/a'" if in_keys else "the sync of Acting 'ns/a'"
    with pytest.raises(HarnessError, match=f"{function} has changed configmaps 'ns/a'"):
        harness.run_until_idle()


def test_an_exception_of_keys_is_raised_where_it_was_caused() -> None:
    """The original exception, with what the host does about it; afterwards nothing runs."""

    def keys(changed: Any, view: Any) -> list[Key]:
        return [changed.new.missing]

    harness = ControllerHarness(Acting(keys=keys))
    harness.start()
    with pytest.raises(AttributeError, match="missing") as raised:
        harness.put(CONFIG_MAP, config_map())
    assert "restarts the controller" in raised.value.__notes__[0]
    with pytest.raises(AttributeError):
        harness.run_until_idle()


@pytest.mark.parametrize(
    ("error", "done", "raised"),
    [
        pytest.param("Conflict", False, Conflict, id="conflict"),
        pytest.param("NotFound", False, NotFound, id="not found"),
        pytest.param("Unreachable", False, Unreachable, id="not sent"),
        pytest.param("Unreachable", True, Unreachable, id="response lost"),
    ],
)
def test_an_answer_is_raised_once_and_the_key_is_retried(
    error: Any, done: bool, raised: type[HostError]
) -> None:
    """The exception is an outcome, virtual time passes, and the retry writes what is left."""
    harness = ControllerHarness(Initial())
    harness.put(NAMESPACE, {"metadata": {"name": "a"}})
    answer = harness.answer(error, verb="patch", kind=NAMESPACE, key="a", done=done)
    harness.run_until_idle()
    assert [type(each.result) for each in harness.outcomes][:2] == [raised, Done]
    assert answer.left == 0
    assert [bool(write.error) for write in harness.writes] == ([True] if done else [True, False])
    assert harness.get(NAMESPACE, "a")["metadata"]["labels"] == {LABEL: "a"}


def test_sync_raises_what_the_sync_has_raised() -> None:
    """An author sees the exception itself, and the key is queued for its retry."""
    harness = ControllerHarness(Initial())
    harness.put(NAMESPACE, {"metadata": {"name": "a"}})
    harness.start()
    harness.answer("Forbidden")
    with pytest.raises(HostError, match="403 Forbidden"):
        harness.sync("a")
    harness.run_until_idle()
    assert len(harness.writes) == 2


def test_changes_are_delivered_before_a_response() -> None:
    """The watch can be faster than the response; also other clients act while a request runs."""
    seen = []

    async def sync(key: Key, view: Any, writer: Any) -> None:
        found = await writer.read(CONFIG_MAP, key)
        seen.append((found is not None, view.of(CONFIG_MAP, Data).get("b", "ns") is not None))

    harness = harness_with_a(sync, writes=permissions("get"))
    harness.start()
    other = {"metadata": {"name": "b", "namespace": "ns"}}
    harness.before_response(lambda: harness.put(CONFIG_MAP, other), verb="get", key="ns/a")
    harness.sync("ns/a")
    harness.sync("ns/none")
    assert seen == [(True, True), (False, True)]
    assert harness.enqueued == [A, Key("b", "ns")]
    assert list(map(str, harness.reads)) == ["configmaps ns/a", "configmaps ns/none"]


def test_a_key_that_always_fails_ends_the_run() -> None:
    """After ten attempts, with the key and the exception."""

    async def sync(key: Key, view: Any, writer: Any) -> None:
        raise RuntimeError("no luck")

    harness = harness_with_a(sync)
    with pytest.raises(HarnessError, match=r"10 syncs of 'ns/a' have failed.*no luck"):
        harness.run_until_idle()
    assert len(harness.outcomes) == 10


def test_a_key_that_queues_itself_for_ever_ends_the_run() -> None:
    """A sync that always writes something new never comes to an end."""
    numbers = iter(range(1000))

    async def sync(key: Key, view: Any, writer: Any) -> None:
        body = {"data": {"n": str(next(numbers))}}
        await writer.apply(CONFIG_MAP, key, body, field_manager="me")

    harness = harness_with_a(sync, writes=permissions("patch"))
    with pytest.raises(HarnessError, match="'ns/a' was synced 100 times"):
        harness.run_until_idle()


def test_later_waits_for_advance() -> None:
    """`run_until_idle` leaves it alone; `advance` lets its time pass, on the harness's clock."""

    async def sync(key: Key, view: Any, writer: Any) -> Any:
        return later(60)

    harness = harness_with_a(sync)
    start = harness.now
    harness.run_until_idle()
    assert len(harness.outcomes) == 1
    harness.advance(timedelta(minutes=5))
    assert len(harness.outcomes) == 6
    assert harness.now - start == timedelta(minutes=5)


def test_timers_and_delayed_keys_run_when_their_time_comes() -> None:
    """A timer is called each time its interval has passed, a delayed key once."""
    timer = Timer(every=timedelta(seconds=10), keys=lambda view: [Key("timer")])
    controller = Acting(timers=[timer])
    controller.synced_keys.append(after("delayed", 25))
    harness = ControllerHarness(controller)
    harness.run_until_idle()
    assert harness.outcomes == []
    harness.advance(timedelta(seconds=30))
    keys = [each.key for each in harness.outcomes]
    assert keys == [Key("timer"), Key("timer"), Key("delayed", "ns"), Key("timer")]
    loop = harness._loop
    del harness
    assert loop.is_closed(), "its timers do not keep the harness alive"


def test_a_debounce_is_waited_for() -> None:
    """A burst of changes is one sync, and `run_until_idle` lets its time pass."""
    harness = ControllerHarness(Acting(debounce=timedelta(seconds=1)))
    harness.start()
    for number in range(5):
        harness.put(CONFIG_MAP, config_map(number=str(number)))
    harness.run_until_idle()
    assert len(harness.enqueued) == 5
    assert len(harness.outcomes) == 1


def test_a_sync_that_never_ends_times_out() -> None:
    """The time limit of the host applies, on the clock of the harness."""

    async def sync(key: Key, view: Any, writer: Any) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="no end after 60 s"):
        ControllerHarness(Acting(sync)).sync(A)


def test_only_selected_objects_are_seen() -> None:
    """Namespace and selectors filter; an object that is no longer selected is deleted for it."""
    controller = Acting(
        namespace="ns", label_selector="tier in (web, db),!off", field_selector="metadata.name!=b"
    )
    harness = ControllerHarness(controller)
    harness.start()
    for name, labels in (
        ("a", {"tier": "web"}),
        ("b", {"tier": "web"}),
        ("c", {"tier": "x"}),
        ("d", {"tier": "db", "off": ""}),
    ):
        meta = {"name": name, "namespace": "ns", "labels": labels}
        harness.put(CONFIG_MAP, {"metadata": meta})
    assert harness.enqueued == [A]
    harness.patch(CONFIG_MAP, A, {"metadata": {"labels": {"tier": "x"}}})
    assert harness.enqueued == [A, A]
    harness.patch(CONFIG_MAP, A, {"metadata": {"labels": {"tier": "y"}}})
    assert harness.enqueued == [A, A]


def test_disconnected_stores_are_behind_until_a_new_list() -> None:
    """A sync reads the old state meanwhile; then the list shows what is gone and what is new."""
    read = []

    async def sync(key: Key, view: Any, writer: Any) -> None:
        read.append(sorted(each.name for each, _ in view.of(CONFIG_MAP, Data).items()))

    harness = ControllerHarness(Acting(sync))
    harness.put(CONFIG_MAP, config_map("a"))
    harness.run_until_idle()
    with harness.disconnected():
        harness.delete(CONFIG_MAP, "ns/a")
        harness.put(CONFIG_MAP, config_map("b"))
        harness.sync("ns/a")
    harness.enqueued.clear()
    harness.sync("ns/a")
    assert read == [["a"], ["a"], ["b"]]
    harness.run_until_idle()
    assert harness.enqueued == []


def test_dynamic_watches_follow_what_is_served() -> None:
    """A kind that comes is listed, one that goes takes its objects with it."""
    harness = ControllerHarness(Acting(), served=[CONFIG_MAP])
    harness.start()
    with pytest.raises(HarnessError, match=r"'websites\.example\.org' is not served"):
        harness.put(WEBSITE, config_map())
    harness.serve(WEBSITE)
    harness.put(WEBSITE, config_map())
    assert harness.enqueued == [A]
    harness.unserve(WEBSITE)
    assert harness.enqueued == [A, A]
    harness.run_until_idle()


def test_a_required_kind_that_is_not_served_is_an_error() -> None:
    """The host would wait for it; once it is served, the controller can start."""
    harness = ControllerHarness(Acting(), served=[])
    with pytest.raises(HarnessError, match="no sync would start: 'configmaps' is not served"):
        harness.start()
    harness.serve(CONFIG_MAP)
    harness.put(CONFIG_MAP, config_map())
    harness.run_until_idle()
    assert harness.enqueued == [A]


def test_missed_wakeups_are_found() -> None:
    """A sync of each object writes what no key was queued for; complete `keys` miss nothing."""

    class Forgetful(Initial):
        def keys(self, change: Any, view: Any) -> list[Key]:
            return [change.key] if change.old is None else []

    for controller, missed in ((Initial(), []), (Forgetful(), ["patch namespaces a"])):
        harness = ControllerHarness(controller)
        harness.put(NAMESPACE, {"metadata": {"name": "a"}})
        harness.run_until_idle()
        harness.patch(NAMESPACE, "a", {"metadata": {"labels": None}})
        assert [str(write) for write in harness.missed_wakeups()] == missed


def test_a_restart_begins_with_the_same_objects() -> None:
    """A new object of the class, new stores, an empty queue."""
    harness = ControllerHarness(Initial())
    harness.put(NAMESPACE, {"metadata": {"name": "a"}})
    harness.run_until_idle()
    harness.enqueued.clear()
    harness.restart(Initial())
    assert harness.enqueued == [Key("a")]
    harness.run_until_idle()
    assert len(harness.writes) == 1


def test_a_class_that_the_host_would_refuse_is_refused() -> None:
    """With the reason that the host gives at loading."""

    class Unmarked:
        def kcm_watches(self) -> list[Any]:
            return []

    with pytest.raises(Exception, match="'kcm_watches' lacks @hookimpl"):
        ControllerHarness(Unmarked()).start()


async def test_an_async_test_is_told_to_be_plain() -> None:
    """The harness has a loop of its own, which cannot run inside another one."""
    harness = ControllerHarness(Initial())
    with pytest.raises(HarnessError, match="without 'async'"):
        harness.run_until_idle()
