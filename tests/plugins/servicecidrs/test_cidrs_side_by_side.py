"""The same story played to the reference and to the host: the same objects in the end."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from eventually import eventually
from plugins.servicecidrs.cidr_cluster import (
    CONTROLLER,
    DUAL_STACK,
    FINALIZER,
    TERMINATING,
    ServerRanges,
    refusal,
)
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.proxy import FaultProxy
from kcm_host_testing.reference import Reference

OTHER = "example.com/other"
MANAGER = "kube-controller-manager"
#: The proxy hands on watches line by line, and only JSON comes in lines.
BY_LINES = ["--kube-api-content-type=application/json"]
#: How long the controllers rest before their work counts as done.
QUIET_SECONDS = 1.0
#: ServiceCIDRs of the story -> their ranges.
RANGES = {
    "plain": ["10.1.0.0/24"],
    "dual": ["10.2.0.0/24", "2001:db8:2::/112"],
    "half": ["10.3.0.0/24"],
    "edited": ["10.4.0.0/24"],
    "failing": ["10.5.0.0/24"],
    "empty": ["10.6.0.0/24"],
    "kept": ["10.7.0.0/24", "2001:db8:7::/112"],
    "freed": ["10.8.0.0/24"],
    "covered": ["10.9.0.0/24"],
    "cover": ["10.9.0.0/16"],
    "shared": ["10.10.0.0/24"],
    "share": ["10.10.0.0/26"],
    "edges": ["10.11.0.0/24"],
    "foreign": ["10.12.0.0/24"],
    "held": ["10.13.0.0/24"],
    "adopted": ["10.14.0.0/24"],
}
SERVED = ["2001:db8:7::ffff", "10.8.0.7", "10.9.0.7", "10.10.0.7", "10.14.0.7"]
DELETED = ["empty", "kept", "freed", "covered", "shared", "edges", "foreign", "held", "adopted"]
GONE = {"empty", "covered", "shared", "edges", "foreign"}


class Story(ServerRanges):
    """One server on which the story is played, with one of the two at work."""

    def __init__(self, server: ApiServer, agent: str) -> None:
        super().__init__(server)
        self.agent = agent
        self.mark = server.audit.mark()
        self.services: dict[str, str] = {}

    def before(self) -> None:
        """Make what is there when the controllers start."""
        for name in ("plain", "dual"):
            self.create(name, *RANGES[name])
        self.create("half", *RANGES["half"], finalizers=[FINALIZER, OTHER])

    def steps(self) -> Iterator[None]:
        """Play the story, with a rest after each yield."""
        self.complete("plain", "dual", "half", "kubernetes")
        for name in RANGES.keys() - {"plain", "dual", "half"}:
            self.create(name, *RANGES[name])
        self.complete(*RANGES)
        for address in SERVED:
            self.services[address] = self.serve(address)
        yield
        self.finalize("half", OTHER)
        self.finalize("held", FINALIZER, OTHER)
        self.say("edited", *TERMINATING)
        self.say("plain", "True", "Other", "changed")
        self.put_address("10.11.0.0")
        self.put_address("10.11.0.255")
        self.put_address("10.12.0.7", manager="other.example")
        yield
        self.delete(*DELETED)
        kept = ("kept", "freed", "adopted")
        eventually(lambda: all(self.says(name) == TERMINATING for name in kept), "some are kept")
        eventually(lambda: not any(map(self.read, GONE)), "others are gone")
        eventually(lambda: self.finalizers("held") == [OTHER], "one is held by another finalizer")
        yield
        self.unserve(self.services["10.8.0.7"])
        eventually(lambda: self.read("freed") is None, "its last address is gone")
        self.create("parent", "10.14.0.0/16")
        eventually(lambda: self.read("adopted") is None, "it has a parent")
        self.complete("parent")
        yield

    def play(self, controllers: AbstractContextManager[Any]) -> None:
        """Play it to the end with these controllers at work."""
        self.before()
        with controllers:
            for _ in self.steps():
                self.server.audit.wait_until_quiet(
                    QUIET_SECONDS,
                    timeout_seconds=60,
                    user_agent=self.agent,
                    since=self.server.audit.mark(),
                )

    def complete(self, *names: str) -> None:
        """Wait until these have all that living ones should have."""
        eventually(lambda: all(map(self.is_complete, names)), f"{', '.join(names)} are complete")

    def writes(self) -> Counter[str]:
        """Give how often each ServiceCIDR and its status was written by the controller."""
        written = self.server.audit.writes(since=self.mark, user_agent=self.agent)
        return Counter(
            f"{one.name}/{one.subresource}" for one in written if one.resource == "servicecidrs"
        )

    def objects(self) -> dict[str, Any]:
        """Give ranges, finalizers, conditions without their times, and field owners."""
        answer = self.net.list_service_cidr(_preload_content=False)
        found = {one["metadata"]["name"]: one for one in json.loads(answer.data)["items"]}
        return {
            name: (
                one["spec"],
                one["metadata"].get("finalizers"),
                "deletionTimestamp" in one["metadata"],
                self.says(name),
                _owners(one["metadata"]),
            )
            for name, one in found.items()
        }

    def told(self) -> list[tuple[Any, ...]]:
        """Give all that Events say, but names and times."""
        found = self.core.list_namespaced_event("default").items
        return sorted(
            (
                one.type,
                one.reason,
                one.message,
                one.count,
                one.involved_object.api_version,
                one.involved_object.kind,
                one.involved_object.name,
                one.source.component,
                one.reporting_component,
            )
            for one in found
            if one.involved_object.kind == "ServiceCIDR"
        )


def _owners(metadata: dict[str, Any]) -> list[Any]:
    """Give who owns which fields; of the host's name for itself only that it is another one."""
    renamed = {MANAGER: "controller", "kcm-host": "controller"}
    return sorted(
        [renamed.get(one["manager"], one["manager"]), one["operation"], json.dumps(one["fieldsV1"])]
        for one in metadata.get("managedFields", [])
    )


@pytest.fixture
def played(own_api_server: Callable[..., ApiServer]) -> tuple[Story, Story]:
    """The story of the reference, and that of the host, played at the same time."""
    servers = [own_api_server(extra_args=DUAL_STACK) for _ in range(2)]
    reference, host = Story(servers[0], f"{MANAGER}/"), Story(servers[1], "kcm-host/")
    config: dict[str, Any] = {"controllers": {CONTROLLER: {}}}
    with (
        ThreadPoolExecutor(2) as pool,
        FaultProxy(servers[0]) as one,
        FaultProxy(servers[1]) as two,
    ):
        for proxy in (one, two):
            proxy.add(refusal(500), method="PATCH", path="/failing/status$", times=3)
        theirs = Reference(
            servers[0], ["service-cidr"], kubeconfig=one.kubeconfig(MANAGER), extra_args=BY_LINES
        )
        ours = RunningHost(config, kubeconfig=two.kubeconfig())
        plays = [pool.submit(reference.play, theirs), pool.submit(host.play, ours)]
        for play in plays:
            play.result()
    return reference, host


def test_the_reference_leaves_the_same_objects(played: tuple[Story, Story]) -> None:
    """
    The same ServiceCIDRs, field owners and Events, and no object is written more often.

    SC-20 to SC-121, as far as the story touches them.
    """
    reference, host = played
    assert host.objects() == reference.objects()
    assert host.objects().keys() >= {"kubernetes", "plain", "kept", "held", "parent"}
    assert host.told() == reference.told()
    assert [event[3] for event in host.told()] == [3]
    theirs, ours = reference.writes(), host.writes()
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name] > theirs[name]} == {}
