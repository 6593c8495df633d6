"""Deleted ServiceCIDRs on a real server: which are blocked, which are removed, and when."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from eventually import eventually
from plugins.servicecidrs.server_cidrs import (
    FIN_MINUS,
    FIN_PLUS,
    FINALIZER,
    STATUS_F,
    STATUS_T,
    TERMINATING,
    CidrCluster,
    Net,
    cut_off,
    refusal,
)

from kcm_host_testing.faults import Stall

OTHER = "example.com/other"
GRACE_SECONDS = 10
GRACE = timedelta(seconds=GRACE_SECONDS)
COMPLETED = [FIN_PLUS, STATUS_T]
FREED = [*COMPLETED, FIN_MINUS]
KEPT = [*COMPLETED, STATUS_F]
V4, SMALL, LARGE, DUAL = "{v4}.0/24", "{v4}.0/26", "{v4}.0/16", "{v4}.0/24 {v6}:/112"
#: The objects at the deletion of `a`. The fixture adds addresses that no Service can have.
FREE_CASES = {
    "T7": {"cidrs": V4},
    "T13": {"cidrs": V4, "b": V4, "service": "{v4}.7"},
    "T14": {"cidrs": V4, "b": SMALL, "service": "{v4}.7"},
    "T17": {"cidrs": DUAL, "b": LARGE, "service": "{v4}.9"},
    "T18": {"cidrs": V4},
    "T20": {"cidrs": V4},
    "T29": {"cidrs": V4},
    "twins": {"cidrs": V4, "b": V4, "service": "{v4}.7"},
    "refused": {"cidrs": V4},
}
BLOCKED_CASES = {
    "T9": {"cidrs": V4, "service": "{v4}.7"},
    "T11": {"cidrs": V4, "service": "{v4}.7"},
    "T12": {"cidrs": V4, "service": "{v4}.7"},
    "T15": {"cidrs": V4, "b": SMALL, "service": "{v4}.200"},
    "T16": {"cidrs": DUAL, "b": LARGE, "service": "{v6}:5"},
    "T19": {"cidrs": "{v6}:/112", "service": "{v6}:ffff"},
    "range": {"cidrs": "{v6}:/112", "b": V4, "service": "{v6}:7"},
    "label": {"cidrs": V4},
    "unseen": {"cidrs": V4, "service": "{v4}.7"},
}


class DeletedCases:
    """The ServiceCIDRs of many cases, all deleted at the same time, more than ten seconds ago."""

    def __init__(self, cluster: CidrCluster) -> None:
        self.cluster = cluster
        self.nets: dict[str, Net] = {}
        self.services: dict[str, str] = {}

    def begin(self, case: str, *, cidrs: str, b: str = "", service: str = "") -> None:
        """Create the case's `a`, its `b` if it has one, and a Service with an address."""
        net = self.nets[case] = Net()
        places = {"v4": net.v4, "v6": net.v6}
        for name, texts in {f"{net}-a": cidrs, f"{net}-b": b}.items():
            if texts:
                self.cluster.create(name, *texts.format(**places).split())
                self.cluster.wait_until_complete(name)
        if service:
            address = service.format(**places)
            self.services[address] = self.cluster.create_service(address)

    @property
    def twins(self) -> tuple[str, str]:
        """The names of two with equal ranges."""
        return self.name("twins"), f"{self.nets['twins']}-b"

    def name(self, case: str) -> str:
        """Return the name of the case's `a`."""
        return f"{self.nets[case]}-a"

    def written(self, case: str) -> list[str]:
        """Return the writes to the case's `a`."""
        return self.cluster.written(self.name(case))


@pytest.fixture(scope="module")
def cases(cluster: CidrCluster) -> Iterator[DeletedCases]:
    """All cases, started at once because each of them takes ten seconds."""
    cases = DeletedCases(cluster)
    for case in FREE_CASES | BLOCKED_CASES:
        cases.begin(case, **(FREE_CASES | BLOCKED_CASES)[case])
    net = cases.nets
    cluster.put_address(f"{net['T18'].v4}.0")
    cluster.put_address(f"{net['T18'].v4}.255")
    cluster.put_address(f"{net['T20'].v4}.7", manager="other.example")
    cluster.put_address(f"{net['label'].v4}.7")
    for name in (cases.name("T29"), *cases.twins):
        cluster.set_finalizers(name, FINALIZER, OTHER)
    cluster.wait_until_delivered()
    cluster.proxy.add(refusal(500), method="PATCH", path=f"/{cases.name('refused')}$", times=2)
    cluster.delete(*map(cases.name, net), cases.twins[1])
    free = [*map(cases.name, FREE_CASES), cases.twins[1]]
    kept = [*map(cases.name, BLOCKED_CASES)]
    eventually(
        lambda: all(cluster.ready_condition(name) == TERMINATING for name in kept), "some are kept"
    )
    eventually(
        lambda: all(FINALIZER not in cluster.finalizers(name) for name in free), "others are free"
    )
    cluster.wait_until_idle()
    yield cases
    for name in (cases.name("T29"), *cases.twins):
        cluster.set_finalizers(name)
    cluster.delete_services(*cases.services.values())
    for name in (f"{net['T18'].v4}.0", f"{net['T18'].v4}.255"):
        cluster.delete_address(name)


@pytest.mark.parametrize("case", ["T7", "T13", "T14", "T17", "T18", "T20"])
def test_one_that_nobody_needs_goes_after_ten_seconds(cases: DeletedCases, case: str) -> None:
    """The finalizer is removed, the condition left alone (SC-T7, 13, 14, 17, 18, 20, SC-63, 64)."""
    assert cases.written(case) == FREED
    assert cases.cluster.read(cases.name(case)) is None


@pytest.mark.parametrize("case", ["T9", "T15", "T16", "T19"])
def test_one_that_an_address_needs_says_so(cases: DeletedCases, case: str) -> None:
    """At once, once, without removing anything and without an Event (SC-T9, 10, 15, 16, 19)."""
    cluster, name = cases.cluster, cases.name(case)
    assert cases.written(case) == KEPT
    assert cluster.ready_condition(name) == TERMINATING, "SC-61"
    assert cluster.finalizers(name) == [FINALIZER]
    assert cluster.events(name) == [], "SC-121"
    found = cluster.read(name)
    assert found is not None
    deleted = datetime.fromisoformat(found["metadata"]["deletionTimestamp"])
    applied = cluster.requests(name)[-1].time.astimezone(UTC)
    assert applied - deleted < GRACE, "SC-61: whatever is left of the grace"


def test_the_grace_is_counted_from_the_deletion(cases: DeletedCases) -> None:
    """Not sooner than ten seconds after its whole second, and hardly later (SC-T8, SC-62)."""
    cluster, name = cases.cluster, cases.name("T29")
    found = cluster.read(name)
    assert found is not None
    deleted = datetime.fromisoformat(found["metadata"]["deletionTimestamp"])
    waited = cluster.requests(name)[-1].time.astimezone(UTC) - deleted
    assert GRACE <= waited < GRACE + timedelta(seconds=5)


def test_finalizers_of_others_are_theirs_to_remove(cases: DeletedCases) -> None:
    """Only this controller's is removed; without it nothing is left to do (SC-T29, SC-72)."""
    cluster, name = cases.cluster, cases.name("T29")
    assert cases.written("T29") == FREED
    assert cluster.finalizers(name) == [OTHER]
    cluster.change(name, metadata={"annotations": {"touched": "1"}})
    cluster.set_condition(name, *TERMINATING)
    cluster.wait_until_idle()
    assert cases.written("T29") == FREED, "SC-66: nor does it become ready again"


def test_the_last_address_frees_its_range(cases: DeletedCases) -> None:
    """After the ten seconds it is removed at once (SC-T11, SC-65)."""
    cluster, name = cases.cluster, cases.name("T11")
    assert cluster.written(name) == KEPT, "SC-T10"
    cluster.delete_services(cases.services.pop(f"{cases.nets['T11'].v4}.7"))
    eventually(lambda: cluster.read(name) is None, "it is gone", timeout_seconds=GRACE_SECONDS / 2)
    assert cluster.written(name) == [*KEPT, FIN_MINUS]


def test_an_address_that_went_while_the_watch_was_interrupted_is_handled(
    cases: DeletedCases,
) -> None:
    """A delete that only the next list shows frees its range (SC-25, IQ-51)."""
    cluster, name, net = cases.cluster, cases.name("unseen"), cases.nets["unseen"]
    assert cluster.written(name) == KEPT
    watch = {"watch": "true"}
    held = cluster.proxy.add(Stall(), query=watch, path="/ipaddresses$", also_open=True, times=1)
    cluster.delete_services(cases.services.pop(f"{net.v4}.7"))
    cut_off(cluster.proxy, "ipaddresses")
    held.remove()
    eventually(lambda: cluster.read(name) is None, "it is gone")
    assert cluster.written(name) == [*KEPT, FIN_MINUS]


def test_a_finalizer_that_could_not_be_removed_is_tried_again(cases: DeletedCases) -> None:
    """A deleted ServiceCIDR is removed once the server accepts the patch (SC-64, SC-72, SC-101)."""
    assert cases.written("refused") == [*FREED, FIN_MINUS, FIN_MINUS]
    requests = cases.cluster.requests(cases.name("refused"))
    assert [request.status for request in requests[2:]] == [500, 500, 200]
    assert cases.cluster.read(cases.name("refused")) is None


def test_a_new_parent_frees_a_range(cases: DeletedCases) -> None:
    """Both are synced: the old one is removed, the new one is completed (SC-T12, SC-20)."""
    cluster, name, net = cases.cluster, cases.name("T12"), cases.nets["T12"]
    cluster.create(f"{net}-b", f"{net.v4}.0/16")
    eventually(lambda: cluster.read(name) is None, "it is gone", timeout_seconds=GRACE_SECONDS / 2)
    cluster.wait_until_complete(f"{net}-b")
    cluster.wait_until_idle()
    assert cluster.written(name) == [*KEPT, FIN_MINUS]
    assert cluster.written(f"{net}-b") == COMPLETED


def test_a_range_added_to_a_living_one_frees_another(cases: DeletedCases) -> None:
    """The reference would notice at its next resync, hours later (SC-21, Difference c)."""
    cluster, name, net = cases.cluster, cases.name("range"), cases.nets["range"]
    assert cluster.written(name) == KEPT
    cluster.change(f"{net}-b", spec={"cidrs": [f"{net.v4}.0/24", f"{net.v6}:/64"]})
    eventually(lambda: cluster.read(name) is None, "it is gone")
    assert cluster.written(name) == [*KEPT, FIN_MINUS]


def test_a_label_taken_from_an_address_frees_its_range(cases: DeletedCases) -> None:
    """The reference would not notice before a resync (SC-24, Difference c)."""
    cluster, name, net = cases.cluster, cases.name("label"), cases.nets["label"]
    assert cluster.written(name) == KEPT
    cluster.relabel(f"{net.v4}.7", "other.example")
    eventually(lambda: cluster.read(name) is None, "it is gone")
    assert cluster.written(name) == [*KEPT, FIN_MINUS]


def test_equal_ranges_deleted_together_both_go(cases: DeletedCases) -> None:
    """Each is the other's parent, though an address remains: as in the reference (SC-44, SC-92)."""
    assert cases.written("twins") == FREED
    assert cases.cluster.written(f"{cases.nets['twins']}-b") == FREED
