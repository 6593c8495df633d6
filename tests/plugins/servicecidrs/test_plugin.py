"""The controller's hooks against the host's own stores, where no server could make the case."""

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from host.sync.sync_bench import CAUSE, Rig

from kcm_host.api import (
    EVENT,
    ApiError,
    Change,
    Done,
    HostError,
    Key,
    Kind,
    Later,
    NotFound,
    Outcome,
    Permission,
    Receipt,
    Undecodable,
    Unreachable,
    View,
    Watch,
    Writer,
)
from kcm_host.store.feed import Feed
from kcm_host.store.view import StoreView
from kcm_host.wire import decode
from kcm_host_servicecidrs import ServiceCidrs
from kcm_host_servicecidrs.model import (
    FINALIZER,
    IP_ADDRESS,
    SERVICE_CIDR,
    IPAddress,
    ServiceCIDR,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
ADD = {"metadata": {"finalizers": [FINALIZER]}}
REMOVE = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
IS_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "",
    "message": "Kubernetes Service CIDR is ready",
}
IS_TERMINATING = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, "
    "please remove them or create a new ServiceCIDR",
}
#: Writes as the tests note them, instead of their bodies.
FIN_PLUS, FIN_MINUS, STATUS_T, STATUS_F = "fin+", "fin-", "status T", "status F"

Manifest = Mapping[str, Any]


def cidr(
    *ranges: str,
    deleted: float | None = None,
    ready: Manifest | None = IS_READY,
    finalizers: Sequence[str] = (FINALIZER,),
) -> dict[str, Any]:
    """Give a ServiceCIDR, complete unless said otherwise; deleted so many seconds ago."""
    made: dict[str, Any] = {"metadata": {"finalizers": list(finalizers)}}
    if deleted is not None:
        at = NOW.replace(microsecond=0) - timedelta(seconds=deleted)
        made["metadata"]["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    made["spec"] = {"cidrs": list(ranges)}
    made["status"] = {"conditions": [ready] if ready else []}
    return made


def address(family: str = "IPv4", manager: str = "ipallocator.k8s.io") -> dict[str, Any]:
    """Give an IPAddress."""
    labels = {
        "ipaddress.kubernetes.io/managed-by": manager,
        "ipaddress.kubernetes.io/ip-family": family,
    }
    return {"metadata": {"labels": labels}}


class Stream:
    """The objects of one kind, told to one watch, with the keys it asks for."""

    def __init__(self, watch: Watch[Any]) -> None:
        self.watch = watch
        self.feed = Feed(watch.kind)
        self.queued: list[str] = []
        self.view: StoreView
        self.feed.follow(watch.model, self)

    def changed(self, change: Change[Any]) -> None:
        """Queue what the controller says, as the host does."""
        wanted = self.watch.keys(change, self.view)
        self.queued += [one.name for one in wanted if isinstance(one, Key)]

    def synced(self) -> None:
        """Take note that the initial objects are told; they are queued already."""

    def relist(self, objects: Mapping[str, Manifest]) -> None:
        """Read a complete list."""
        self.feed.list_begins()
        for name, body in objects.items():
            line = self.line("ADDED", name, body)
            self.feed.gather("ADDED", line, decode.frame(line).object)
        self.feed.list_ends()

    def tell(self, kind: str, name: str, body: Manifest) -> list[str]:
        """Tell one event and give the keys queued for it."""
        self.queued.clear()
        line = self.line(kind, name, body)
        self.feed.event(kind, line, decode.frame(line).object)
        return sorted(self.queued)

    def line(self, kind: str, name: str, body: Manifest) -> bytes:
        """Give one line of the watch."""
        head = {"name": name, "uid": name, "resourceVersion": "7"}
        whole = {**body, "metadata": {**head, **body.get("metadata", {})}}
        return json.dumps({"type": kind, "object": whole}).encode()


class Cluster:
    """One controller between two streams and the writes it makes, at a time that stands still."""

    def __init__(
        self,
        cidrs: Mapping[str, Manifest] | None = None,
        addresses: Mapping[str, Manifest] | None = None,
    ) -> None:
        self.controller = ServiceCidrs(lambda: NOW)
        self.cidrs, self.addresses = map(Stream, self.controller.kcm_watches())
        stores = {
            (stream.watch.kind, stream.watch.model): stream.feed.shelf(stream.watch.model).store
            for stream in (self.cidrs, self.addresses)
        }
        self.cidrs.view = self.addresses.view = self.view = StoreView("servicecidrs", stores)
        #: Name and sort of each write, the last status applied, Events, and answers to give.
        self.written: list[tuple[str, str]] = []
        self.applied: dict[str, Any] = {}
        self.events: list[tuple[str, str, str, bool, str]] = []
        self.answers: deque[HostError] = deque()
        self.cidrs.relist(cidrs or {})
        self.addresses.relist(addresses or {})

    async def sync(self, name: str = "a") -> Outcome:
        """Sync one key against the stores as they are."""
        return await self.controller.kcm_sync(Key(name), self.view, self)

    def status(self) -> Mapping[str, Any]:
        """Give the controller's part of the status page."""
        return self.controller.kcm_status(self.view)

    async def patch(
        self, kind: Kind, key: Key, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Receipt:
        """Note a change of the finalizers."""
        assert (kind, subresource) == (SERVICE_CIDR, "")
        sort = {json.dumps(ADD): FIN_PLUS, json.dumps(REMOVE): FIN_MINUS}[json.dumps(body)]
        return self._note(key.name, sort)

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> Receipt:
        """Note a status apply."""
        where = (kind, field_manager, force, subresource)
        assert where == (SERVICE_CIDR, "service-cidr-controller", True, "status")
        (condition,) = body["status"]["conditions"]
        self.applied = dict(condition)
        state = {k: v for k, v in condition.items() if k != "lastTransitionTime"}
        assert state in (IS_READY, IS_TERMINATING)
        return self._note(key.name, STATUS_T if state == IS_READY else STATUS_F)

    def event(
        self,
        kind: Kind,
        key: Key,
        *,
        reason: str,
        message: str,
        warning: bool = True,
        component: str = "",
    ) -> None:
        """Note an Event."""
        assert kind == SERVICE_CIDR
        self.events.append((key.name, reason, message, warning, component))

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        raise NotImplementedError(f"{kind} {body} {namespace}")

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        raise NotImplementedError(f"{kind} {whole} {subresource}")

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        raise NotImplementedError(f"{kind} {key} {uid} {version}")

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        raise NotImplementedError(f"{kind} {key}")

    def _note(self, name: str, sort: str) -> Receipt:
        self.written.append((name, sort))
        if self.answers:
            raise self.answers.popleft()
        return Receipt()


SEVEN = {"10.0.0.7": address()}


@pytest.mark.parametrize(
    ("a", "others", "addresses", "writes"),
    [
        pytest.param(cidr("10.0.0.0/24"), {}, {}, [], id="SC-T3"),
        pytest.param(
            cidr("10.0.0.0/24", ready=None, finalizers=()), {}, {}, [FIN_PLUS, STATUS_T], id="SC-T2"
        ),
        pytest.param(cidr("10.0.0.0/24", ready=None), {}, {}, [STATUS_T], id="SC-T4"),
        pytest.param(cidr("10.0.0.0/24", finalizers=["x/y"]), {}, {}, [FIN_PLUS], id="SC-T5"),
        pytest.param(
            cidr("10.0.0.0/24", ready=IS_READY | {"message": "other"}), {}, {}, [STATUS_T], id="T6"
        ),
        pytest.param(cidr("10.0.0.0/24", ready=IS_TERMINATING), {}, {}, [STATUS_T], id="SC-T30"),
        pytest.param(cidr("10.0.0.0/24", deleted=11), {}, {}, [FIN_MINUS], id="SC-T7"),
        pytest.param(cidr("10.0.0.0/24", deleted=1), {}, SEVEN, [STATUS_F], id="SC-T9"),
        pytest.param(
            cidr("10.0.0.0/24", deleted=1, ready=IS_TERMINATING), {}, SEVEN, [], id="SC-T10"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/24")},
            SEVEN,
            [FIN_MINUS],
            id="T13",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/24", deleted=30)},
            SEVEN,
            [FIN_MINUS],
            id="SC-92: a parent that is being deleted",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {"b": cidr("10.0.0.0/26", ready=None)},
            SEVEN,
            [FIN_MINUS],
            id="SC-T14, SC-44: not ready",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30),
            {},
            {"10.0.0.0": address(), "10.0.0.255": address()},
            [FIN_MINUS],
            id="SC-T18",
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30), {}, {"not-an-ip": address()}, [FIN_MINUS], id="SC-T22"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"]), {}, {}, [], id="SC-T29, SC-72"
        ),
        pytest.param(
            cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"], ready=None),
            {},
            SEVEN,
            [STATUS_F],
            id="SC-61: whatever the finalizers",
        ),
    ],
)
async def test_a_sync_writes_what_is_missing(
    a: Manifest, others: Mapping[str, Manifest], addresses: Mapping[str, Manifest], writes: Any
) -> None:
    """The state of a ServiceCIDR decides, not what happened to it (SC-51, SC-60 to SC-73, 80)."""
    cluster = Cluster({"a": a, **others}, addresses)
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", sort) for sort in writes]


async def test_a_key_without_object_needs_nothing() -> None:
    """A key without object ends well and without a request (SC-T1, SC-T27, SC-50)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    assert cluster.cidrs.tell("DELETED", "a", cidr("10.0.0.0/24")) == []
    assert await cluster.sync() == Done()
    assert cluster.written == []


@pytest.mark.parametrize(
    ("deleted", "outcome", "writes"),
    [
        pytest.param(4, Later(timedelta(seconds=5, microseconds=321_100)), [], id="SC-T8"),
        pytest.param(-2, Later(timedelta(seconds=11, microseconds=321_100)), [], id="slow clock"),
        pytest.param(9, Later(timedelta(microseconds=321_100)), [], id="whole seconds"),
        pytest.param(10, Done(), [("a", FIN_MINUS)], id="SC-64"),
    ],
)
async def test_a_free_one_stays_for_ten_seconds(
    deleted: float, outcome: Outcome, writes: list[tuple[str, str]]
) -> None:
    """The wait is what is left of 10 s by the local clock; the condition stays (SC-7, 62, 63)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=deleted, ready=IS_TERMINATING)})
    assert await cluster.sync() == outcome
    assert cluster.written == writes


async def test_the_decision_is_taken_anew_each_time() -> None:
    """Blocked within the grace, and freed after it, it is treated as it is then (SC-65, SC-104)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4)})
    assert await cluster.sync() == Later(timedelta(seconds=5, microseconds=321_100))
    cluster.addresses.tell("ADDED", "10.0.0.7", address())
    assert await cluster.sync() == Done()
    cluster.cidrs.tell("MODIFIED", "a", cidr("10.0.0.0/24", deleted=30, ready=IS_TERMINATING))
    cluster.addresses.tell("DELETED", "10.0.0.7", address())
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", STATUS_F), ("a", FIN_MINUS)]


async def test_the_condition_carries_the_present_time() -> None:
    """Whole seconds in UTC, the same when only the message changes; no generation (SC-82 to 85)."""
    changed = IS_READY | {"message": "other", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=changed)})
    await cluster.sync()
    assert cluster.applied == IS_READY | {"lastTransitionTime": "2026-01-02T03:04:05Z"}


async def test_a_vanished_object_needs_no_finalizer() -> None:
    """404 to a finalizer patch is no error; the status apply follows (SC-71, SC-72, SC-T26)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None, finalizers=())})
    cluster.answers.extend([NotFound("gone", status=404), NotFound("gone", status=404)])
    with pytest.raises(NotFound):
        await cluster.sync()
    assert cluster.written == [("a", FIN_PLUS), ("a", STATUS_T)]
    assert [event[0] for event in cluster.events] == ["a"]
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30)})
    cluster.answers.append(NotFound("gone", status=404))
    assert await cluster.sync() == Done()


async def test_a_lost_connection_is_told_like_a_refusal() -> None:
    """Whatever kept the condition from being written, there is one Event an attempt (SC-74)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    cluster.answers.append(Unreachable("no answer"))
    with pytest.raises(Unreachable):
        await cluster.sync()
    assert cluster.events == [
        (
            "a",
            "KubernetesServiceCIDRError",
            "The ServiceCIDR Status can not be set to Ready=True",
            True,
            "service-cidr-controller",
        )
    ]


@pytest.mark.virtual_time
async def test_a_failure_is_retried_without_end() -> None:
    """18 failures are waited out, 655 s the last; then done (SC-T23, SC-101, SC-102, Diff e)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", ready=None)})
    cluster.answers.extend([ApiError("broken", status=500)] * 18)
    rig = Rig()

    async def sync(key: Key, view: View, writer: Writer, settings: Any) -> Outcome:
        return await cluster.sync(key.name)

    rig.queue.add(Key("a"), CAUSE)
    records = await rig.run(sync, seconds=2000)
    assert [record.outcome for record in records] == ["error"] * 18 + ["done"]
    assert [record.retry_after_seconds for record in records[:-1]] == pytest.approx(
        [0.005 * 2**failures for failures in range(18)]
    )
    assert len(cluster.events) == 18
    assert cluster.written == [("a", STATUS_T)] * 19


NEIGHBOURS = {
    "a": cidr("10.0.0.0/24", deleted=4),
    "b": cidr("10.0.0.0/16", deleted=4),
    "c": cidr("192.168.0.0/16", deleted=4),
    "alive": cidr("10.0.0.0/8"),
}


def test_an_address_wakes_the_deleted_that_could_serve_it() -> None:
    """Coming, changing its labels and going: two of three, no living one (SC-T21, SC-23, SC-25)."""
    cluster = Cluster(NEIGHBOURS)
    tell = cluster.addresses.tell
    assert tell("ADDED", "10.0.0.7", address()) == ["a", "b"]
    assert tell("MODIFIED", "10.0.0.7", address(manager="x")) == ["a", "b"], "Difference c"
    assert tell("DELETED", "10.0.0.7", address()) == []
    assert tell("ADDED", "10.0.0.0", address()) == [], "SC-43: the network address"
    assert tell("ADDED", "10.0.1.0", address()) == ["b"]
    assert tell("DELETED", "10.0.1.0", address()) == ["b"]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        pytest.param("not-an-ip", address(), id="SC-T22"),
        pytest.param("10.0.0.7", address(manager="other.example"), id="SC-T20"),
        pytest.param("10.0.0.7", {}, id="no labels"),
    ],
)
def test_an_unmanaged_address_wakes_nobody(name: str, state: Manifest) -> None:
    """Neither when it comes nor when it goes (SC-26)."""
    cluster = Cluster(NEIGHBOURS)
    assert cluster.addresses.tell("ADDED", name, state) == []
    assert cluster.addresses.tell("DELETED", name, state) == []


def test_an_address_wakes_only_whom_it_changes() -> None:
    """One blocked already stays as it is until its last address goes (Difference b)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    assert cluster.addresses.tell("ADDED", "10.0.0.8", address()) == []
    assert cluster.addresses.tell("DELETED", "10.0.0.7", address()) == []
    assert cluster.addresses.tell("DELETED", "10.0.0.8", address()) == ["a"]
    assert cluster.addresses.tell("ADDED", "10.0.0.9", address()) == []


def test_a_first_list_queues_what_has_something_to_do() -> None:
    """Complete ones not at all (SC-T31, Difference a), deleted ones once, in whichever order."""
    complete = {"a": cidr("10.0.0.0/24"), "b": cidr("10.0.0.0/16")}
    assert Cluster(complete, SEVEN).cidrs.queued == []
    cluster = Cluster({"new": cidr("10.1.0.0/24", ready=None), **NEIGHBOURS}, SEVEN)
    assert cluster.cidrs.queued == ["new", "a", "b", "c"]
    assert cluster.addresses.queued == []


def test_a_new_range_wakes_the_deleted_it_overlaps() -> None:
    """Of a new object or added to an old one, a smaller one or a parent (SC-T12, SC-20, SC-21)."""
    blocked = {"a": cidr("10.0.0.0/24", "2001:db8::/112", deleted=4, ready=IS_TERMINATING)}
    cluster = Cluster(blocked, {**SEVEN, "2001:db8::7": address("IPv6")})
    new = cidr("10.0.0.0/16", ready=None, finalizers=())
    assert cluster.cidrs.tell("ADDED", "b", new) == ["b"], "a is kept by its IPv6 address"
    both = cidr("10.0.0.0/16", "2001:db8::/64")
    assert cluster.cidrs.tell("MODIFIED", "b", both) == ["a"], "Difference c"
    cluster = Cluster(blocked, {"2001:db8::7": address("IPv6")})
    assert cluster.cidrs.tell("ADDED", "b", cidr("2001:db8::/120")) == ["a"]
    assert cluster.cidrs.tell("ADDED", "c", cidr("192.168.0.0/16")) == []


def test_only_changes_that_leave_something_to_do_wake() -> None:
    """An echo of the controller's own writes does not, a deletion does (SC-T28, Difference a)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", finalizers=(), ready=None)})
    tell = cluster.cidrs.tell
    assert tell("MODIFIED", "a", cidr("10.0.0.0/24", ready=None)) == ["a"], "half of it"
    assert tell("MODIFIED", "a", cidr("10.0.0.0/24")) == []
    assert tell("MODIFIED", "a", cidr("10.0.0.0/24", finalizers=())) == ["a"], "taken away"
    assert tell("MODIFIED", "a", cidr("10.0.0.0/24", deleted=0)) == ["a"]
    assert tell("DELETED", "a", cidr("10.0.0.0/24", deleted=0)) == []


def test_a_list_read_again_is_like_its_changes() -> None:
    """What only a relist shows is felt: addresses gone, ranges that came (SC-25, SC-27, IQ-51)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=4, ready=IS_TERMINATING)}, SEVEN)
    cluster.addresses.queued.clear()
    cluster.addresses.relist(SEVEN)
    assert cluster.addresses.queued == []
    cluster.addresses.relist({"10.0.1.7": address()})
    assert cluster.addresses.queued == ["a"]
    cluster.cidrs.queued.clear()
    cluster.cidrs.relist({"b": cidr("10.0.0.0/16", deleted=4)})
    assert cluster.cidrs.queued == ["b"]
    assert cluster.status()["kept"] == [{"serviceCIDR": "b", "keptBy": "10.0.1.7"}]


async def test_one_that_is_gone_is_forgotten() -> None:
    """It shares no address any more, and is woken by none, not even as its namesake (SC-44)."""
    both = {"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/24", deleted=4)}
    cluster = Cluster(both, SEVEN)
    assert cluster.cidrs.tell("DELETED", "b", both["b"]) == [], "its going frees nobody"
    assert cluster.status()["deleting"] == 1
    await cluster.sync()
    assert cluster.written == [("a", STATUS_F)]
    assert cluster.addresses.tell("ADDED", "10.0.0.8", address()) == ["a"]
    cluster.cidrs.tell("DELETED", "a", both["a"])
    assert cluster.cidrs.tell("ADDED", "a", cidr("10.0.0.0/24")) == []
    assert cluster.addresses.tell("DELETED", "10.0.0.7", address()) == []
    assert cluster.status() == {
        "serviceCIDRs": 1,
        "managedAddresses": 1,
        "undecodable": 0,
        "deleting": 0,
        "kept": [],
    }


def test_one_that_is_held_by_others_says_what_keeps_it() -> None:
    """Without this controller's finalizer a deleted one is looked at all the same (SC-61)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30, finalizers=["x/y"])}, SEVEN)
    assert cluster.cidrs.queued == ["a"]


async def test_conditions_of_other_types_are_not_looked_at() -> None:
    """Only the one of type Ready counts (SC-80)."""
    complete = cidr("10.0.0.0/24")
    complete["status"]["conditions"].insert(0, IS_TERMINATING | {"type": "Other"})
    cluster = Cluster({"a": complete})
    assert cluster.cidrs.queued == []
    await cluster.sync()
    assert cluster.written == []


UNREADABLE_CIDR: Manifest = {"metadata": {"finalizers": 7}}
UNREADABLE_ADDRESS: Manifest = {"metadata": {"labels": 7}}


async def test_nothing_is_written_from_half_read_data(caplog: pytest.LogCaptureFixture) -> None:
    """A ServiceCIDR that cannot be read is an error until it can; others go on (Difference d)."""
    incomplete = cidr("10.0.0.0/24", ready=None)
    cluster = Cluster({"a": incomplete, "b": cidr("10.1.0.0/24", ready=None)})
    with caplog.at_level(logging.ERROR):
        assert cluster.cidrs.tell("MODIFIED", "a", UNREADABLE_CIDR) == []
    with pytest.raises(Undecodable, match="servicecidr 'a' does not fit"):
        await cluster.sync("a")
    await cluster.sync("b")
    assert cluster.written == [("b", STATUS_T)]
    assert cluster.status()["undecodable"] == 1
    assert cluster.cidrs.tell("MODIFIED", "a", incomplete) == [], "the retry finds it"
    await cluster.sync("a")
    assert cluster.written[1:] == [("a", STATUS_T)]


async def test_an_unreadable_range_still_holds_its_addresses() -> None:
    """With its last good ranges it is a parent, and shares addresses (Difference d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30), "b": cidr("10.0.0.0/26")}, SEVEN)
    cluster.cidrs.tell("MODIFIED", "b", UNREADABLE_CIDR)
    cluster.cidrs.tell("ADDED", "c", UNREADABLE_CIDR)
    await cluster.sync()
    assert cluster.written == [("a", FIN_MINUS)]


async def test_an_unreadable_address_frees_nothing() -> None:
    """It counts as managed, with a look each minute, for nobody tells when it goes (Diff. d)."""
    cluster = Cluster({"a": cidr("10.0.0.0/24", deleted=30)}, {"10.0.0.7": UNREADABLE_ADDRESS})
    assert await cluster.sync() == Later(timedelta(minutes=1))
    assert cluster.written == [("a", STATUS_F)]
    assert cluster.status()["kept"] == [{"serviceCIDR": "a", "keptBy": "10.0.0.7"}]
    assert cluster.addresses.tell("DELETED", "10.0.0.7", UNREADABLE_ADDRESS) == []
    assert await cluster.sync() == Done()
    assert cluster.written[1:] == [("a", FIN_MINUS)]


async def test_an_unreadable_address_stays_where_readable_ones_go() -> None:
    """The last readable address wakes the key, the sync finds the other one (Difference d)."""
    blocked = cidr("10.0.0.0/24", deleted=30, ready=IS_TERMINATING)
    cluster = Cluster({"a": blocked}, {**SEVEN, "10.0.0.8": UNREADABLE_ADDRESS})
    assert await cluster.sync() == Done()
    assert cluster.addresses.tell("DELETED", "10.0.0.7", address()) == ["a"]
    assert await cluster.sync() == Later(timedelta(minutes=1))
    assert cluster.written == []
    assert cluster.addresses.tell("MODIFIED", "10.0.0.8", address(manager="x")) == []
    assert await cluster.sync() == Done()
    assert cluster.written == [("a", FIN_MINUS)]


def test_the_status_names_what_is_in_the_way() -> None:
    """Counts, and the first ten of those that are kept, with an address of each."""
    cidrs = {f"c{number:02}": cidr(f"10.0.{number}.0/24", deleted=4) for number in range(12)}
    addresses = {f"10.0.{number}.7": address() for number in range(11)}
    status = dict(Cluster({"alive": cidr("10.1.0.0/16"), **cidrs}, addresses).status())
    assert status.pop("kept") == [
        {"serviceCIDR": f"c{number:02}", "keptBy": f"10.0.{number}.7"} for number in range(10)
    ]
    assert status == {"serviceCIDRs": 13, "managedAddresses": 11, "undecodable": 0, "deleting": 12}


def test_permissions_are_the_least_that_works() -> None:
    """Patches of the object and of its status, and Events; no update, no get (SC-110)."""
    assert set(ServiceCidrs().kcm_writes()) == {
        Permission(SERVICE_CIDR, "patch"),
        Permission(SERVICE_CIDR, "patch", "status"),
        Permission(EVENT, "create"),
        Permission(EVENT, "patch"),
    }


def test_the_watches_are_of_all_objects_and_told_only_what_they_read() -> None:
    """Two cluster-wide watches without selectors; no repeats (SC-9, SC-28)."""
    watches = ServiceCidrs().kcm_watches()
    assert [(watch.kind, watch.model) for watch in watches] == [
        (SERVICE_CIDR, ServiceCIDR),
        (IP_ADDRESS, IPAddress),
    ]
    for watch in watches:
        assert watch.kind.api_version == "networking.k8s.io/v1"
        assert (watch.namespace, watch.label_selector, watch.field_selector) == ("", "", "")
        assert watch.every_event is False
