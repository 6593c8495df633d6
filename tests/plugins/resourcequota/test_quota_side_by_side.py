"""The same story played to the reference and to the host: the same status after each step."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kubernetes import client
from quota_server import CONTROLLER, QuotaNamespace
from running_host import RunningHost

from kcm_host_resourcequota.quantity import parse
from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.reference import Reference

#: How long the controllers rest before their work counts as done.
QUIET_SECONDS = 1.5
SETTINGS = {"settleTime": "1s"}
QUOTAS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "everything": (
        [
            *("pods", "count/pods", "requests.cpu", "memory", "limits.cpu"),
            *("services", "services.nodeports", "configmaps", "count/secrets", "resourcequotas"),
            *("persistentvolumeclaims", "requests.storage"),
            "gold.storageclass.storage.k8s.io/requests.storage",
            *("count/deployments.apps", "example.com/nobody"),
        ],
        {},
    ),
    "lasting": (["pods", "requests.cpu"], {"scopes": ["NotTerminating", "NotBestEffort"]}),
    "ending": (["pods", "count/configmaps", "count/pods"], {"scopes": ["Terminating"]}),
    "unserved": (["example.com/nobody"], {}),
    "empty": ([], {}),
}
Statuses = dict[str, tuple[dict[str, int], dict[str, int]]]


class Story(QuotaNamespace):
    """One server on which the story is played, with one of the two at work."""

    def __init__(self, server: ApiServer, agent: str) -> None:
        super().__init__(server)
        self.agent = agent
        self.apps: Any = client.AppsV1Api(server.client())

    def before(self) -> None:
        """Make what is there when the controllers start."""
        for number in range(5):
            self.pod(f"early-{number}")
        self.core.create_namespaced_config_map(self.name, {"metadata": {"name": "early"}})
        for name in ("everything", "lasting"):
            self.limit(name)

    def steps(self) -> Iterator[None]:
        """Play the story, with a rest after each yield."""
        yield
        for name in ("ending", "unserved", "empty"):
            self.limit(name)
        yield
        for number in range(5):
            self.pod(f"late-{number}", activeDeadlineSeconds=60 if number % 2 else None)
        self.service("s", "NodePort", 2)
        self.claim("v", "1.5Gi")
        self.core.create_namespaced_secret(self.name, {"metadata": {"name": "s"}})
        yield
        self.end_pod("early-0")
        self.delete_pod("early-0")
        self.delete_pod("late-1")
        yield
        self.ask("everything", **{"requests.cpu": "50", "limits.cpu": None, "limits.memory": "9Gi"})
        self.core.delete_namespaced_config_map("early", self.name)
        self.core.patch_namespaced_service("s", self.name, {"spec": {"type": "ClusterIP"}})
        yield
        for number in range(1, 5):
            self.delete_pod(f"early-{number}")
        self.core.delete_namespaced_service("s", self.name)
        self.core.delete_namespaced_secret("s", self.name)
        self.core.delete_namespaced_resource_quota("empty", self.name)
        yield

    def play(self, controllers: AbstractContextManager[Any]) -> list[Statuses]:
        """Play it with these controllers at work, and give all statuses after each step."""
        self.before()
        found = []
        with controllers:
            self.wait_until_first()
            for _ in self.steps():
                mark = self.server.audit.mark()
                self.server.audit.wait_until_quiet(
                    QUIET_SECONDS, timeout_seconds=60, user_agent=self.agent, since=mark
                )
                found.append(self.statuses())
        return found

    def wait_until_first(self) -> None:
        """Wait until the controller is at work: it has nothing to rest from before."""
        entries = self.server.audit
        entries.wait_for(
            lambda each: each.subresource == "status" and each.user_agent.startswith(self.agent),
            since=self.mark,
        )

    def limit(self, name: str) -> None:
        """Create one of the quotas."""
        names, spec = QUOTAS[name]
        self.quota(*names, name=name, limit="1T", **spec)

    def service(self, name: str, sort: str, ports: int) -> None:
        """Create a service."""
        listed = [{"name": f"p{each}", "port": 80 + each} for each in range(ports)]
        spec = {"type": sort, "ports": listed, "selector": {"a": "b"}}
        self.core.create_namespaced_service(self.name, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, size: str) -> None:
        """Create a volume claim of class gold."""
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gold",
            "resources": {"requests": {"storage": size}},
        }
        body = {"metadata": {"name": name}, "spec": spec}
        self.core.create_namespaced_persistent_volume_claim(self.name, body)

    def statuses(self) -> Statuses:
        """Give hard and used of every quota, in numbers: a text may have several forms (RQ-304)."""
        found: Statuses = {}
        for name in QUOTAS:
            try:
                status = self.status(name)
            except client.ApiException:
                continue
            hard, used = ({**(status.get(field) or {})} for field in ("hard", "used"))
            found[name] = (_numbers(hard), _numbers(used))
        return found

    def written(self) -> Counter[str]:
        """Give how often each quota was written."""
        return Counter({name: len(self.writes(name, agent=self.agent)) for name in QUOTAS})


def _numbers(texts: dict[str, str]) -> dict[str, int]:
    return {name: parse(text).nano for name, text in texts.items()}


@pytest.fixture
def stories(own_api_server: Callable[..., ApiServer]) -> tuple[Story, Story]:
    """One story for the reference, one for the host."""
    return (
        Story(own_api_server(), "kube-controller-manager/"),
        Story(own_api_server(), "kcm-host/"),
    )


def test_the_reference_says_the_same(stories: tuple[Story, Story]) -> None:
    """
    The same limits and numbers after each step, and no quota is written more often.

    RQ-20 to RQ-29, RQ-40 to RQ-53, RQ-60 to RQ-77, RQ-226, RQ-240 to RQ-243, as far as the story
    touches them.
    """
    reference, host = stories
    config: dict[str, Any] = {"controllers": {CONTROLLER: {"settings": SETTINGS}}}
    ours = RunningHost(config, kubeconfig=host.server.kubeconfig())
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(reference.play, Reference(reference.server, [CONTROLLER]))
        found = pool.submit(host.play, ours)
        assert found.result() == theirs.result()
    assert len(found.result()) == 6
    more = host.written() - reference.written()
    assert more == Counter(), (host.written(), reference.written())
