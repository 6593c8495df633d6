"""The same story played to the reference and to the host: the same objects in the end."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from cluster_roles import R1, R2, R3, R9, manifest, rule
from eventually import eventually
from kubernetes import client
from running_host import RunningHost
from ttl_nodes import TTL, create_nodes

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.reference import Reference

CONTROLLERS = ["ttl", "clusterrole-aggregation"]
#: How long the controllers rest before their work counts as done; the host's own rest is 0.1 s.
QUIET_SECONDS = 1.0
AGGREGATED = ("agg", "everything", "mutual-1", "mutual-2", "stale", "was", "admin", "edit", "view")
#: What each step changes once. The others meet the states of other aggregated roles on their way,
#: or have nothing to write (CRA-56): how often they are written is chance, for both.
COUNTED = {f"clusterroles/{name}" for name in ("agg", "was", "view", "mutual-1", "mutual-2")} | {
    f"nodes/n{number:03}" for number in range(101)
}
VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


class Story:
    """One server on which the story is played, with one of the two at work."""

    def __init__(self, server: ApiServer, agent: str) -> None:
        self.server = server
        self.agent = agent
        self.core: Any = client.CoreV1Api(server.client())
        self.rbac: Any = client.RbacAuthorizationV1Api(server.client())
        self.mark = server.audit.mark()

    def before(self) -> None:
        """Make what is there when the controllers start."""
        create_nodes(self.server, ["n000"], annotations={"other": "stays"})
        create_nodes(self.server, ["n001"], annotations={TTL: "abc"})
        create_nodes(self.server, ["n002"], annotations={TTL: "000"})
        create_nodes(self.server, ["n003"], annotations={TTL: "300"})
        ax = {"matchLabels": {"a": "x"}}
        by = {"matchExpressions": [{"key": "b", "operator": "In", "values": ["y", "z"]}]}
        self.role("s1", R1, R1, R2, labels={"a": "x"})
        self.role("s2", R3, R2, labels={"b": "y"})
        self.role("agg", R9, selectors=[by, ax])
        self.role("was", selectors=[ax])
        self.role("everything", selectors=[{}])
        self.role("stale", R9, selectors=[{"matchLabels": {"no": "body"}}])
        self.role("mutual-1", labels={"m": "1"}, selectors=[{"matchLabels": {"m": "2"}}])
        self.role("mutual-2", labels={"m": "2"}, selectors=[{"matchLabels": {"m": "1"}}])

    def steps(self) -> Iterator[None]:
        """Play the story, with a rest after each yield."""
        yield
        self.role("m-source", rule("from-m"), labels={"m": "1"})
        self.role("crd-view", rule("widgets"), labels=VIEW)
        self.core.patch_node("n000", {"metadata": {"annotations": {TTL: "30"}}})
        yield
        self.rbac.delete_cluster_role("m-source")
        self.rbac.patch_cluster_role("agg", {"rules": []})
        self.rbac.patch_cluster_role("was", {"aggregationRule": None})
        create_nodes(self.server, [f"n{number:03}" for number in range(4, 100)])
        yield
        create_nodes(self.server, ["n100"])
        self.rbac.patch_cluster_role("s1", {"metadata": {"labels": {"a": None}}})
        self.heartbeats()
        yield
        self.rbac.patch_cluster_role("s2", {"rules": [R9, R2]})
        for number in range(89, 101):
            self.core.delete_node(f"n{number:03}")
        yield
        self.heartbeats()
        yield

    def role(self, name: str, *rules: Any, **fields: Any) -> None:
        """Create a role."""
        self.rbac.create_cluster_role(manifest(name, *rules, **fields))

    def heartbeats(self) -> None:
        """Let every node change, as kubelets do: the reference corrects a node only then."""
        ready = {"type": "Ready", "status": "True", "reason": secrets.token_hex(4)}
        for node in self.core.list_node().items:
            self.core.patch_node_status(node.metadata.name, {"status": {"conditions": [ready]}})

    def writes(self) -> Counter[str]:
        """Give how often each node and role was written by the controllers, so far."""
        written = self.server.audit.writes(since=self.mark, user_agent=self.agent)
        kinds = {"nodes", "clusterroles"}
        return Counter(f"{one.resource}/{one.name}" for one in written if one.resource in kinds)

    def play(self, controllers: AbstractContextManager[Any]) -> None:
        """Play it to the end with these controllers at work."""
        self.before()
        with controllers:
            eventually(lambda: self.at_work() == {"nodes", "clusterroles"}, "both are at work")
            for _ in self.steps():
                self.rest()

    def at_work(self) -> set[str]:
        """Give the kinds of which something was written."""
        return {name.partition("/")[0] for name in self.writes()}

    def rest(self) -> None:
        """Wait until nothing was written for a while."""
        self.server.audit.wait_until_quiet(
            QUIET_SECONDS,
            timeout_seconds=60,
            user_agent=self.agent,
            since=self.server.audit.mark(),
        )

    def nodes(self) -> dict[str, Any]:
        """Give the annotations and field owners of every node."""
        answer = self.core.list_node(_preload_content=False)
        found = [item["metadata"] for item in json.loads(answer.data)["items"]]
        return {one["name"]: (one["annotations"], _owners(one)) for one in found}

    def roles(self) -> dict[str, Any]:
        """Give rules and field owners of every aggregated role."""
        found = {}
        for name in AGGREGATED:
            answer = self.rbac.read_cluster_role(name, _preload_content=False)
            role = json.loads(answer.data)
            found[name] = (role["rules"], _owners(role["metadata"]))
        return found


def _owners(metadata: dict[str, Any]) -> list[Any]:
    """Give who owns which fields; of the host's name for itself only that it is another one."""
    renamed = {"kube-controller-manager": "controller", "kcm-host": "controller"}
    return sorted(
        [renamed.get(one["manager"], one["manager"]), one["operation"], json.dumps(one["fieldsV1"])]
        for one in metadata.get("managedFields", [])
    )


@pytest.fixture
def played(own_api_server: Callable[..., ApiServer]) -> tuple[Story, Story]:
    """The story of the reference, and that of the host, played at the same time."""
    reference = Story(own_api_server(), "kube-controller-manager/")
    host = Story(own_api_server(), "kcm-host/")
    config: dict[str, Any] = {"controllers": {name: {} for name in CONTROLLERS}}
    ours = RunningHost(config, kubeconfig=host.server.kubeconfig())
    with ThreadPoolExecutor(2) as pool:
        plays = [
            pool.submit(reference.play, Reference(reference.server, CONTROLLERS)),
            pool.submit(host.play, ours),
        ]
        for play in plays:
            play.result()
    return reference, host


def test_the_reference_leaves_the_same_objects(played: tuple[Story, Story]) -> None:
    """
    The same annotations, rules and field owners, and no object is written more often.

    TTL-5 to TTL-83 and CRA-10 to CRA-94, as far as the story touches them.
    """
    reference, host = played
    assert host.nodes() == reference.nodes()
    assert host.roles() == reference.roles()
    theirs, ours = reference.writes(), host.writes()
    assert {name for name in ours if ours[name] > theirs[name]} & COUNTED == set()
