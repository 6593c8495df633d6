"""What an undisturbed run of the story ends in."""

from collections.abc import Iterator

import pytest
from eventually import eventually
from faults.cluster_story import CONFIG, Outcome, Story
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.proxy import FaultProxy


@pytest.fixture(scope="session")
def undisturbed(etcd: Etcd) -> Outcome:
    """Return the objects at the end of a run without any fault, on a server of its own."""
    with ApiServer(etcd) as server:
        story = Story(server)
        with RunningHost(CONFIG, kubeconfig=server.kubeconfig()):
            story.first_chapter()
            story.second_chapter()
            eventually(lambda: set(story.written()) == {"15"}, "all nodes are annotated")
            server.audit.wait_until_quiet(1.0, timeout_seconds=60, user_agent="kcm-host/")
        return story.outcome()


@pytest.fixture
def story(etcd: Etcd) -> Iterator[Story]:
    """Return the story on a server that belongs to the test."""
    with ApiServer(etcd) as server:
        yield Story(server)


@pytest.fixture
def story_proxy(story: Story) -> Iterator[FaultProxy]:
    """Return a proxy of faults before that server."""
    with FaultProxy(story.server) as proxy:
        yield proxy
