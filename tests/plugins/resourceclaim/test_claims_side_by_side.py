"""The same life of claims played to the reference and to the host: the same objects in the end."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from claim_cluster import FINALIZER, by_name, by_template
from claims_on_server import Claims, consumer
from eventually import eventually
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.reference import Reference

#: How long the controllers rest before their work counts as done.
QUIET_SECONDS = 1.0
METADATA = {"labels": {"a": "b"}, "annotations": {"x": "y"}}
Snapshot = dict[str, Any]


class Story(Claims):
    """One server on which the story is played, with one of the two at work."""

    def __init__(self, server: ApiServer, agent: str) -> None:
        super().__init__(server, namespace="story")
        self.agent = agent
        self.mark = server.audit.mark()
        self.alive: Snapshot = {}
        self.end: Snapshot = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def play(self, controller: AbstractContextManager[Any]) -> None:
        """
        Play it to the end with this controller at work.

        Ended pods with templates go soon, because the reference makes their claims again and
        again (Q-1), and no pod has two templates whose claims are replaced (Difference a).
        """
        self.before()
        with controller:
            first = self.claims_are_made()
            self.rest()
            self.are_used(first)
            self.rest()
            self.alive, self.counts = self.snapshot(), self.writes()
            self.come_to_an_end(first)
            self.rest()
            self.end = self.snapshot()

    def before(self) -> None:
        """Make what is there when the controllers start."""
        self.template(metadata=METADATA)
        self.claim("shared")
        self.claim("never-was", finalizers=["a.example/x"])
        self.allocate("never-was", {"resource": "pods", "name": "none", "uid": "none"})
        self.claim("unused")
        self.allocate("unused")
        self.pod("before")
        self.pod("static", by_name("res", "missing"))

    def claims_are_made(self) -> dict[str, str]:
        """Let pods come, and give the claims that were made: pod -> claim."""
        self.pod("one")
        self.pod("two", node="n")
        self.pod("short-lived")
        self.pod("p" * 60, by_template("e" * 30))
        self.pod("two-entries", by_template("b"), by_template("a"))
        self.pod("waits", by_template("res", "late"))
        eventually(lambda: self.all("events"), "the missing template is told")
        self.template("late")
        names = ("before", "one", "two", "short-lived", "waits")
        made = {name: self.made(name)["res"] for name in names}
        self.made("p" * 60)
        self.made("two-entries", entries=2)
        return made

    def are_used(self, made: dict[str, str]) -> None:
        """Let the scheduler allocate, and leave some reservations to the controller."""
        self.allocate(made["one"], consumer(self.get("pods", "one")))
        self.bind("one")
        self.allocate(made["two"])
        self.allocate(made["before"], consumer(self.get("pods", "before")))
        self.bind("before")
        self.pod("user-1", by_name("x", "shared"), node="n")
        self.pod("user-2", by_name("x", "shared"), by_template(), node="m")
        self.made("user-2")
        self.rest()
        self.allocate("shared", consumer(self.get("pods", "user-1")))
        eventually(lambda: len(self.consumers("shared")) == 2, "both users are reserved")

    def come_to_an_end(self, made: dict[str, str]) -> None:
        """Let pods end in every way."""
        self.phase("one", "Running")
        self.phase("one", "Succeeded")
        eventually(lambda: made["one"] not in self.names(), "the claim of the ended pod is gone")
        self.delete("pods", "one")
        self.delete("pods", "two")
        self.delete("pods", "short-lived")
        self.delete("pods", "user-1")
        self.delete("resourceclaims", "unused")

    def rest(self) -> None:
        """Wait until nothing was written for a while."""
        self.server.audit.wait_until_quiet(
            QUIET_SECONDS,
            timeout_seconds=60,
            user_agent=self.agent,
            since=self.server.audit.mark(),
        )

    def writes(self) -> Counter[tuple[str, str, str]]:
        """Give how often each kind of write was made so far."""
        written = self.server.audit.writes(since=self.mark, user_agent=self.agent)
        mine = [one for one in written if one.namespace == "story" and one.resource != "events"]
        return Counter((one.verb, one.resource, one.subresource) for one in mine)

    def snapshot(self) -> Snapshot:
        """Give pods, claims and events, without what is random."""
        pods = {each["metadata"]["name"]: each for each in self.all("pods")}
        recorded = {
            each.get("resourceClaimName"): f"{name}/{each['name']}"
            for name, pod in pods.items()
            for each in pod["status"].get("resourceClaimStatuses", [])
        }
        claims = {
            told: self.told(each, pods)
            for each in self.all("resourceclaims")
            if (told := recorded.get(each["metadata"]["name"], _owner(each)))
        }
        entries = {name: sorted(self.recorded(name)) for name in pods}
        return {"claims": claims, "entries": entries, "events": self.warnings()}

    def told(self, claim: Any, pods: dict[str, Any]) -> Any:
        """Give what is the same whoever made it."""
        metadata = claim["metadata"]
        uids = {pod["metadata"]["uid"]: name for name, pod in pods.items()}
        consumers = [uids.get(one["uid"]) for one in claim["status"].get("reservedFor", [])]
        owners = [
            {**owner, "uid": owner["uid"] in uids} for owner in metadata.get("ownerReferences", [])
        ]
        return {
            "base": metadata.get("generateName"),
            "labels": metadata.get("labels"),
            "annotations": metadata.get("annotations"),
            "finalizers": metadata.get("finalizers"),
            "owners": owners,
            "spec": claim["spec"],
            "allocated": "allocation" in claim["status"],
            "consumers": consumers,
        }

    def warnings(self) -> set[tuple[str, ...]]:
        """Give what users were told."""
        return {
            (
                one["type"],
                one["reason"],
                one["message"],
                one["source"]["component"],
                one["involvedObject"]["name"],
            )
            for one in self.all("events")
        }

    def owned_fields(self, pod: str) -> Any:
        """Give the fields of a pod that the controller owns."""
        managed = self.get("pods", pod)["metadata"]["managedFields"]
        return [
            (one["operation"], one.get("subresource"), json.dumps(one["fieldsV1"], sort_keys=True))
            for one in managed
            if one["manager"] == "ResourceClaimController"
        ]


def _owner(claim: Any) -> str:
    """Give a name for a claim that no pod has recorded; none for one whose pod is gone."""
    owners = claim["metadata"].get("ownerReferences")
    return "" if owners else claim["metadata"]["name"]


@pytest.fixture
def played(own_api_server: Callable[..., ApiServer]) -> tuple[Story, Story]:
    """The story of the reference, and that of the host, played at the same time."""
    reference = Story(own_api_server(), "kube-controller-manager/")
    host = Story(own_api_server(), "kcm-host/")
    ours = RunningHost({"controllers": {"resourceclaim": {}}}, kubeconfig=host.server.kubeconfig())
    with ThreadPoolExecutor(2) as pool:
        plays = [
            pool.submit(reference.play, Reference(reference.server, ["resourceclaim"])),
            pool.submit(host.play, ours),
        ]
        for play in plays:
            play.result()
    return reference, host


def test_the_reference_leaves_the_same_claims(played: tuple[Story, Story]) -> None:
    """
    The same claims, records, consumers, events and owned fields; nothing is written more often.

    RC-35 to RC-76, as far as the story touches them.
    """
    reference, host = played
    assert host.alive == reference.alive
    assert host.end == reference.end
    assert host.owned_fields("before") == reference.owned_fields("before")
    assert host.counts <= reference.counts
    assert host.end["claims"]["never-was"]["finalizers"] == ["a.example/x"]
    assert FINALIZER not in json.dumps(host.end["claims"]["never-was"])
