"""One story of nodes and roles, played to a server, and what both controllers make of it."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from eventually import eventually
from kubernetes import client
from plugins.clusterrole_aggregation.server_roles import Manifest, manifest, rule
from plugins.ttl.server_nodes import TTL
from urllib3.exceptions import HTTPError

from kcm_host_testing.api_server import ApiServer

CONFIG: Mapping[str, Any] = {
    "controllers": {"ttl": {}, "clusterrole-aggregation": {}},
    "startTimeout": "60s",
}
TOGETHER = 4
#: How long a request may be tried again while the server is away.
AWAY_SECONDS = 90.0

#: Node -> its annotation; role -> its rules.
Outcome = tuple[dict[str, str | None], dict[str, Any]]


class Story:
    """
    120 nodes and an aggregation of 20 roles, in two chapters with a fault between or within.

    Every request is tried until the server has answered it, as a person would.
    """

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._core: Any = client.CoreV1Api(server.client())
        self._rbac: Any = client.RbacAuthorizationV1Api(server.client())

    def first_chapter(self) -> None:
        """70 nodes, ten roles, and one role that is made of them."""
        selector = {"matchLabels": {"story": "yes"}}
        self._play([self._role("whole", selectors=[selector])])
        self._play(
            [self._node(f"early-{number:02}") for number in range(70)]
            + [self._part(f"part-{number:02}", f"kind{number}") for number in range(10)]
        )

    def second_chapter(self) -> None:
        """60 nodes come, 10 go; ten roles come, one goes, one changes: above the ttl's step."""
        self._play(
            [self._node(f"late-{number:02}") for number in range(60)]
            + [self._part(f"part-{number:02}", f"kind{number}") for number in range(10, 20)]
        )
        self._play([self._gone(f"early-{number:02}") for number in range(10)])
        self._play([self._no_part("part-03"), self._changed_part("part-04", "other")])

    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._core.list_node().items)

    def outcome(self) -> Outcome:
        """Return what counts at the end, without versions and times."""
        nodes = self._core.list_node().items
        roles = self._rbac.list_cluster_role().items
        plain = self._rbac.api_client.sanitize_for_serialization
        return (
            {one.metadata.name: (one.metadata.annotations or {}).get(TTL) for one in nodes},
            {one.metadata.name: plain(one.rules) for one in roles},
        )

    def written(self) -> Iterator[str | None]:
        """Return the annotations of all nodes."""
        return iter(self.outcome()[0].values())

    def ends_in(self, expected: Outcome, *, timeout_seconds: float = 60.0) -> None:
        """Wait until the objects are as expected and the host has stopped writing."""
        try:
            eventually(
                lambda: self.outcome() == expected,
                "the objects are those of an undisturbed run",
                timeout_seconds=timeout_seconds,
            )
        except AssertionError as late:
            raise AssertionError(f"{late}; {_difference(self.outcome(), expected)}") from None
        self.server.audit.wait_until_quiet(1.0, timeout_seconds=60, user_agent="kcm-host/")
        assert self.outcome() == expected

    def _play(self, steps: list[Callable[[], object]]) -> None:
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(_done, steps))

    def _node(self, name: str) -> Callable[[], object]:
        return lambda: self._core.create_node({"metadata": {"name": name}}, _request_timeout=60)

    def _gone(self, name: str) -> Callable[[], object]:
        return lambda: self._core.delete_node(name, _request_timeout=60)

    def _role(self, name: str, *rules: Manifest, **more: Any) -> Callable[[], object]:
        body = manifest(name, *rules, **more)
        return lambda: self._rbac.create_cluster_role(body, _request_timeout=60)

    def _part(self, name: str, resource: str) -> Callable[[], object]:
        return self._role(name, rule(resource), labels={"story": "yes"})

    def _no_part(self, name: str) -> Callable[[], object]:
        return lambda: self._rbac.delete_cluster_role(name, _request_timeout=60)

    def _changed_part(self, name: str, resource: str) -> Callable[[], object]:
        body = {"rules": [rule(resource)]}
        return lambda: self._rbac.patch_cluster_role(name, body, _request_timeout=60)


def _difference(found: Outcome, expected: Outcome) -> str:
    """Name what is not as expected, as (found, expected)."""
    return ", ".join(
        f"{name}: {(one.get(name), other.get(name))}"
        for one, other in zip(found, expected, strict=True)
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )


def _done(step: Callable[[], object]) -> None:
    """Take a step until the server has answered; it may have taken it before the fault."""

    def answered() -> bool:
        try:
            step()
        except HTTPError:
            return False
        except client.ApiException as error:
            if error.status not in (404, 409):
                return False
        return True

    eventually(answered, "the server has answered", timeout_seconds=AWAY_SECONDS)
