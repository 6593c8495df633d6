"""What a real API server says it serves, now and when it is asked again."""

import asyncio
import json
import logging
from typing import Any

import pytest
from host.runtime.definitions import Definitions
from logged import pairs_of

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Discovery, Kind, Resource
from kcm_host.client.discovery import CachedDiscoveryClient
from kcm_host.client.rest import Client, user_agent_of
from kcm_host_testing.faults import Answer, Fault
from kcm_host_testing.proxy import FaultProxy

AGENT = user_agent_of("host")
NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)
LEASE = Kind(group="coordination.k8s.io", version="v1", name="Lease", resource="leases")
OLD_LEASE = Kind(group="coordination.k8s.io", version="v1beta1", name="Lease", resource="leases")
WIDGET = Kind(group="acme.example", version="v1", name="Widget", resource="widgets")
LIST_OF_GROUPS = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}


@pytest.fixture
def discoverer(client: Client) -> CachedDiscoveryClient:
    """Return one that has not asked yet."""
    return CachedDiscoveryClient(client, user_agent=AGENT)


async def until_served(discoverer: CachedDiscoveryClient, *kinds: Kind) -> None:
    """Ask again and again until all these are served."""
    async with asyncio.timeout(60):
        while not all(map(discoverer.api_resources.serves, kinds)):
            await asyncio.sleep(0.05)
            await discoverer.fetch()


def groups(*found: tuple[str, list[dict[str, Any]]]) -> Fault:
    """Return an answer that names these groups and their versions."""
    items = [{"metadata": {"name": name}, "versions": versions} for name, versions in found]
    return Answer(200, json.dumps({**LIST_OF_GROUPS, "items": items}).encode())


def version(name: str, *resources: str, freshness: str = "Current") -> dict[str, Any]:
    """Return one version as it stands in an answer."""
    told = [
        {"resource": one, "responseKind": {"kind": one.title()}, "scope": "Cluster", "verbs": []}
        for one in resources
    ]
    return {"version": name, "freshness": freshness, "resources": told}


def told(discoverer: CachedDiscoveryClient) -> list[tuple[str, str, bool]]:
    """Return resource, version and preference of what is served, the core group left out."""
    found = discoverer.api_resources.resources()
    return [(r.kind.resource, r.kind.version, r.preferred) for r in found if r.kind.group]


async def test_served_kinds_are_known_after_two_requests(
    discoverer: CachedDiscoveryClient, fault_proxy: FaultProxy
) -> None:
    """Group, version and resource have to be right for a kind to count as served."""
    assert await discoverer.fetch()
    found: Discovery = discoverer.api_resources
    assert found.serves(NODE)
    assert found.serves(LEASE)
    assert not found.serves(OLD_LEASE)
    assert not found.serves(WIDGET)
    assert not found.serves(Kind(group="apps", version="v1", name="Node", resource="nodes"))
    assert [request.path for request in fault_proxy.requests()] == ["/api", "/apis"]


async def test_the_first_served_version_is_found(discoverer: CachedDiscoveryClient) -> None:
    """Of several versions the first that the server has counts; None when it has none."""
    await discoverer.fetch()
    found = discoverer.api_resources
    assert found.first_served(OLD_LEASE, LEASE) == LEASE
    assert found.first_served(LEASE, OLD_LEASE) == LEASE
    assert found.first_served(OLD_LEASE, WIDGET) is None
    assert found.first_served() is None


async def test_resources_come_with_scope_and_verbs(discoverer: CachedDiscoveryClient) -> None:
    """Each is a kind as a watch needs it; subresources are left out (RQ-210)."""
    await discoverer.fetch()
    found = {resource.kind: resource for resource in discoverer.api_resources.resources()}
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert found[NODE] == Resource(kind=NODE, verbs=frozenset(verbs), preferred=True)
    assert found[LEASE].kind.namespaced
    bindings = Kind(group="", version="v1", name="Binding", resource="bindings")
    assert found[bindings].verbs == {"create"}
    assert not any("/" in kind.resource for kind in found)


async def test_the_preferred_version_is_the_best_that_has_the_resource(
    discoverer: CachedDiscoveryClient, definitions: Definitions
) -> None:
    """What the group's best version lacks is preferred in the next one (RQ-210)."""
    definitions.create("Widget", versions=("v1", "v1beta1"))
    definitions.create("Gadget", versions=("v1beta1",))
    new = Kind(group=definitions.group, version="v1", name="Widget", resource="widgets")
    old = Kind(group=definitions.group, version="v1beta1", name="Widget", resource="widgets")
    gadget = Kind(group=definitions.group, version="v1beta1", name="Gadget", resource="gadgets")
    await until_served(discoverer, new, old, gadget)
    found = {resource.kind: resource.preferred for resource in discoverer.api_resources.resources()}
    assert (found[new], found[old], found[gadget]) == (True, False, True)


async def test_asking_again_is_cheap_while_nothing_changes(
    discoverer: CachedDiscoveryClient, fault_proxy: FaultProxy
) -> None:
    """The server only says that all is as it was, and that is no change."""
    await discoverer.fetch()
    async with asyncio.timeout(60):
        # A definition that an earlier test has deleted may still be on its way out.
        while [request.status for request in fault_proxy.requests()[-2:]] != [304, 304]:
            before = discoverer.api_resources
            changed = await discoverer.poll()
            await asyncio.sleep(0.05)
    assert not changed
    assert discoverer.api_resources is before


async def test_a_new_kind_is_a_change(
    discoverer: CachedDiscoveryClient, definitions: Definitions
) -> None:
    """A kind that a CustomResourceDefinition adds is served as soon as the server says so."""
    await discoverer.fetch()
    widget = Kind(group=definitions.group, version="v1", name="Widget", resource="widgets")
    definitions.create("Widget", versions=("v1",))
    changed = False
    async with asyncio.timeout(60):
        while not discoverer.api_resources.serves(widget):
            await asyncio.sleep(0.05)
            changed = await discoverer.poll()
    assert changed
    assert discoverer.api_resources.serves(NODE)


async def test_a_refusal_goes_to_the_caller(
    discoverer: CachedDiscoveryClient, fault_proxy: FaultProxy
) -> None:
    """Who may not see what is served gets the server's 403."""
    fault_proxy.add(Answer(403), path="^/apis$")
    with pytest.raises(ApiError) as raised:
        await discoverer.fetch()
    assert raised.value.status == 403


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Answer(503), "get /apis: 503"),
        (groups(), "/apis lists no resource any more"),
        (groups(("apps", [version("v1")])), "/apis lists no resource any more"),
        (Answer(200, b"<html>"), "malformed"),
    ],
    ids=["error", "no group", "no resource", "another server"],
)
async def test_trouble_changes_nothing_and_is_told_once(
    discoverer: CachedDiscoveryClient,
    fault_proxy: FaultProxy,
    caplog: pytest.LogCaptureFixture,
    fault: Fault,
    words: str,
) -> None:
    """What was known stays, until an answer comes that can be believed (RQ-212, RQ-232)."""
    fine = groups(("acme.example", [version("v1", "widgets")]))
    fault_proxy.add(fine, path="^/apis$", times=1)
    await discoverer.fetch()
    before = discoverer.api_resources
    with caplog.at_level(logging.WARNING, logger="kcm_host"):
        fault_proxy.add(fault, path="^/apis$", times=2)
        assert not await discoverer.poll()
        assert not await discoverer.poll()
        fault_proxy.add(fine, path="^/apis$", times=1)
        assert not await discoverer.poll()
    assert discoverer.api_resources is before
    (line,) = caplog.records
    assert line.getMessage() == "discovery failed, retrying"
    assert words in pairs_of(line)["error"]


async def test_a_version_nobody_answers_for_keeps_what_was_known(
    discoverer: CachedDiscoveryClient, fault_proxy: FaultProxy
) -> None:
    """Stale is not gone: its resources stay, others of the same answer are taken (RQ-231)."""
    first = groups(("acme.example", [version("v1", "widgets"), version("v1beta1", "gadgets")]))
    fault_proxy.add(first, path="^/apis$", times=1)
    await discoverer.fetch()
    assert told(discoverer) == [("widgets", "v1", True), ("gadgets", "v1beta1", True)]
    stale = version("v1", freshness="Stale")
    second = groups(("acme.example", [stale, version("v1beta1", "gadgets", "widgets")]))
    fault_proxy.add(second, path="^/apis$", times=1)
    assert await discoverer.poll()
    assert told(discoverer) == [
        ("widgets", "v1", True),
        ("gadgets", "v1beta1", True),
        ("widgets", "v1beta1", False),
    ]


async def test_a_version_nobody_ever_answered_for_has_nothing(
    discoverer: CachedDiscoveryClient, fault_proxy: FaultProxy
) -> None:
    """What the server itself remembers of a stale version is not taken (RQ-231)."""
    stale = version("v1", "widgets", freshness="Stale")
    fault_proxy.add(groups(("acme.example", [stale])), path="^/apis$", times=1)
    await discoverer.fetch()
    assert told(discoverer) == []
