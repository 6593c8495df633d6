"""The audit log tells who wrote what, and when they rest."""

from typing import Any

import pytest
from kubernetes import client

from kcm_host_testing.api_server import ApiServer


def core_as(server: ApiServer, user_agent: str) -> Any:
    """Return a client of the core group with this user agent."""
    api = server.client()
    api.user_agent = user_agent
    return client.CoreV1Api(api)


def test_a_write_is_seen_with_user_agent_and_code(api_server: ApiServer, namespace: str) -> None:
    """A write after a mark is one entry with user, user agent, object and result."""
    mark = api_server.audit.mark()
    core = core_as(api_server, "audit-test/1")
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "seen"}})
    core.read_namespaced_config_map("seen", namespace)
    entry = api_server.audit.wait_for(lambda e: e.name == "seen" and e.verb == "get", since=mark)
    assert entry.code == 200
    (write,) = api_server.audit.writes(since=mark, user_agent="audit-test/")
    assert (write.verb, write.user, write.code) == ("create", "admin", 201)
    assert (write.resource, write.namespace, write.name) == ("configmaps", namespace, "seen")
    assert write.user_agent == "audit-test/1"
    assert api_server.audit.writes(since=api_server.audit.mark(), user_agent="audit-test/") == []


def test_a_refused_write_is_seen_too(api_server: ApiServer, namespace: str) -> None:
    """A write that is forbidden counts as a write with its code."""
    mark = api_server.audit.mark()
    core: Any = client.CoreV1Api(api_server.client("bob"))
    with pytest.raises(client.ApiException):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "refused"}})
    entry = api_server.audit.wait_for(lambda e: e.user == "bob", since=mark)
    assert (entry.verb, entry.code) == ("create", 403)


def test_quiet_gives_the_writes_once_they_rest(api_server: ApiServer, namespace: str) -> None:
    """`wait_until_quiet` returns all writes of the client that now rests."""
    mark = api_server.audit.mark()
    core = core_as(api_server, "quiet-test/1")
    for name in ("one", "two"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})
    writes = api_server.audit.wait_until_quiet(
        0.3, timeout_seconds=60, user_agent="quiet-test/", since=mark
    )
    assert [write.name for write in writes] == ["one", "two"]


def test_no_quiet_is_an_error_that_names_the_last_write(
    api_server: ApiServer, namespace: str
) -> None:
    """When the time is shorter than the rest that is asked for, the last write is named."""
    mark = api_server.audit.mark()
    core = core_as(api_server, "restless-test/1")
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "restless"}})
    api_server.audit.wait_for(lambda e: e.name == "restless", since=mark)
    with pytest.raises(TimeoutError, match="restless"):
        api_server.audit.wait_until_quiet(
            5, timeout_seconds=0.2, user_agent="restless-test/", since=mark
        )


def test_an_entry_that_never_comes_is_an_error(api_server: ApiServer) -> None:
    """`wait_for` ends at its time with an error."""
    with pytest.raises(TimeoutError, match=r"within 0\.2 s"):
        api_server.audit.wait_for(lambda e: e.name == "nobody-makes-this", timeout_seconds=0.2)
