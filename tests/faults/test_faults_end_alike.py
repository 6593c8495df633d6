"""After each fault the objects are those of a run without it."""

import itertools
import os
import signal
import threading
import time

from eventually import eventually
from faults.cluster_story import CONFIG, Outcome, Story
from running_host import RunningHost

from kcm_host_testing.faults import Stall
from kcm_host_testing.proxy import FaultProxy

OUTAGE_SECONDS = 30.0
WATCHES = {"watch": "true"}


def test_the_story_has_something_to_tell(undisturbed: Outcome) -> None:
    """Without a fault 120 nodes are above the first step, and the role is made of 19 others."""
    nodes, roles = undisturbed
    assert len(nodes) == 120
    assert set(nodes.values()) == {"15"}
    found = sorted(rule["resources"][0] for rule in roles["whole"])
    assert len(found) == 19
    assert "other" in found
    assert not {"kind3", "kind4"} & set(found)


def test_an_api_server_that_dies_for_half_a_minute(story: Story, undisturbed: Outcome) -> None:
    """Killed while objects are made, back after 30 s: the host waits and catches up (IQ-24)."""
    with RunningHost(CONFIG, kubeconfig=story.server.kubeconfig()) as host:
        load = threading.Thread(target=story.first_chapter)
        load.start()
        eventually(lambda: story.nodes() >= 20, "the server is under load")
        story.server.kill()
        died = time.monotonic()
        eventually(lambda: host.stream("nodes")["phase"] == "failed", "the host has noticed")
        assert host.page("/livez")[0] == 200
        eventually(
            lambda: time.monotonic() - died > OUTAGE_SECONDS,
            "the outage is over",
            timeout_seconds=OUTAGE_SECONDS + 5,
        )
        story.server.start()
        load.join()
        story.second_chapter()
        # A stream that was away for half a minute may wait a minute for its next try (IQ-2), and
        # once more when the server does not know its version any longer (IQ-27).
        story.ends_in(undisturbed, timeout_seconds=150)
        assert host.page("/readyz")[0] == 200
        assert host.controller("ttl")["restarts"] == 0


def test_a_history_that_is_gone(
    story: Story, story_proxy: FaultProxy, undisturbed: Outcome
) -> None:
    """What happened unseen, deletes included, is learned by a new list after 410 (IQ-27)."""
    with RunningHost(CONFIG, kubeconfig=story_proxy.kubeconfig()) as host:
        story.first_chapter()
        eventually(lambda: host.stream("nodes")["objects"] == 70, "the host knows the nodes")
        stall = story_proxy.add(Stall(), query=WATCHES, also_open=True)
        story.second_chapter()
        assert host.stream("nodes")["objects"] == 70
        story.server.expire_history()
        stall.remove()
        story.ends_in(undisturbed)
        assert host.stream("nodes")["lists"] >= 2
        assert host.stream("clusterroles")["lists"] >= 2
        assert host.controller("ttl")["status"]["nodes"] == 120
        assert host.controller("ttl")["restarts"] == 0


def test_a_host_that_is_killed_at_work(
    story: Story, story_proxy: FaultProxy, undisturbed: Outcome
) -> None:
    """A new process finishes what the killed one left half done."""
    number = itertools.count()
    # Above the step every node gets 15; after twenty of them nothing goes through any more.
    stuck = story_proxy.add(
        Stall(), method="PATCH", when=lambda request: b'"15"' in request.body and next(number) >= 20
    )
    with RunningHost(CONFIG, kubeconfig=story_proxy.kubeconfig()) as host:
        story.first_chapter()
        eventually(lambda: set(story.written()) == {"0"}, "the first nodes are annotated")
        story.second_chapter()
        stuck.wait_until_hit()
        os.kill(host.pid, signal.SIGKILL)
        eventually(lambda: not host.process.running, "it is gone")
    left = set(story.outcome()[0].values())
    assert {"15", "0"} <= left
    with RunningHost(CONFIG, kubeconfig=story.server.kubeconfig()) as host:
        story.ends_in(undisturbed)
        assert host.controller("ttl")["status"]["nodes"] == 120
