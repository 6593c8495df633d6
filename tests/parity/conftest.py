"""The scenarios that a test run has chosen, all played at the first test that needs one."""

import random
from collections.abc import Mapping

import pytest
from parity.batches import play_all
from parity.catalogue import RECORDED
from parity.recordings import Recordings
from parity.result import Result
from parity.scenario import Scenario
from parity.side import TheHost, TheReference

from kcm_host_testing.etcd import Etcd

#: How many scenarios the reference plays again, to see whether its recordings still hold.
SAMPLE = 10
#: Rounds of a scenario that takes too long for the sample.
LONG = 8


@pytest.fixture(scope="session")
def recordings() -> Mapping[str, Recordings]:
    """Controller -> what the reference did."""
    return {one.controller: Recordings(one.controller) for one in RECORDED}


@pytest.fixture(scope="session")
def sample() -> list[Scenario]:
    """
    Some scenarios, others in each run; `-p "randomly_seed=..."` brings the same ones back.

    Of those that need a server of their own at most one, because of the time.
    """
    own = [one for one in RECORDED if one.alone or one.machine or one.cluster.proxied]
    shared = [one for one in RECORDED if one not in own and not one.restless]
    short = [one for one in own if len(one.rounds) < LONG and not one.restless]
    return [*random.sample(shared, SAMPLE - 1), random.choice(short)]


@pytest.fixture(scope="session")
def played(
    request: pytest.FixtureRequest, etcd: Etcd, sample: list[Scenario]
) -> tuple[dict[str, Result], dict[str, Result]]:
    """
    What came of the chosen scenarios with the host, and of the sample with the reference.

    All at once, because scenarios share servers.
    """
    found = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [one.params["scenario"] for one in found if one and "scenario" in one.params]
    again = sample if _wants_sample(request) else []
    theirs, ours = play_all(etcd, [(TheReference(), again), (TheHost(), chosen)])
    return theirs, ours


def _wants_sample(request: pytest.FixtureRequest) -> bool:
    """Return whether a test wants it itself, and not only through `played`."""
    return any("the_recordings_hold" in item.name for item in request.session.items)
