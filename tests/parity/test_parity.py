"""The host does what the reference did, and the reference still does what is recorded."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from parity.batches import TRIES_OF_LATE
from parity.catalogue import FIXED, RECORDED, SEEDS
from parity.recordings import Recordings
from parity.result import Result
from parity.scenario import END, Scenario
from parity.scenarios import resourcequota_random
from parity.verdict import verdict

from kcm_host_testing import release

Played = tuple[dict[str, Result], dict[str, Result]]
Known = Mapping[str, Recordings]

RENEW = "renew it: PYTHONPATH=tests .venv/bin/python -m parity --record"


def recorded(scenario: Scenario, recordings: Known) -> Result:
    """Return what the reference did in a scenario; the test fails when that is not known."""
    found = recordings[scenario.controller].of(scenario)
    if found is None:
        version = release.kubernetes_version()
        pytest.fail(
            f"no recording of '{scenario.id}' as it is now, by {version}; {RENEW}", pytrace=False
        )
    return found


def agree(scenario: Scenario, theirs: Result, ours: Result) -> None:
    """
    Fail with the story and the differences when any of them is undeclared.

    A machine on which the looks of a scenario come too late each time cannot say anything about it.
    """
    for result in (theirs, ours):
        if result.late and not result.problem:
            pytest.skip(f"played {TRIES_OF_LATE + 1} times in vain: {result.late}")
    if told := verdict(scenario, theirs, ours):
        pytest.fail(told, pytrace=False)


@pytest.mark.parametrize("scenario", FIXED, ids=lambda one: one.id)
def test_the_host_does_as_the_reference(
    scenario: Scenario, played: Played, recordings: Known
) -> None:
    """Objects, field owners, Events and writes are the same, but for the declared Differences."""
    _, ours = played
    agree(scenario, recorded(scenario, recordings), ours[scenario.id])


@pytest.mark.parametrize("scenario", SEEDS, ids=lambda one: one.id)
def test_random_workloads_end_alike(scenario: Scenario, played: Played, recordings: Known) -> None:
    """What is drawn by chance ends alike as well; `python -m parity --seed` makes it shorter."""
    _, ours = played
    agree(scenario, recorded(scenario, recordings), ours[scenario.id])


def test_the_recordings_hold(sample: list[Scenario], played: Played, recordings: Known) -> None:
    """A sample of the scenarios, played to the reference again, gives what is recorded."""
    again, _ = played
    for scenario in sample:
        # How often it writes is chance in places; what it writes is not.
        agree(
            replace(scenario, counted=False, differs=()),
            recorded(scenario, recordings),
            again[scenario.id],
        )


def test_every_scenario_is_recorded(recordings: Known) -> None:
    """There is a recording of each scenario as it is now, by the release that the kit builds."""
    missing = [one.id for one in RECORDED if recordings[one.controller].of(one) is None]
    assert missing == [], RENEW


def test_random_pods_use_every_name(recordings: Known) -> None:
    """Each name of their quotas counts something somewhere, unless its selector is malformed."""
    (scenario,) = resourcequota_random.SCENARIOS
    found = recorded(scenario, recordings).looks[END]
    quotas = {ref: each for ref, each in found.items() if ref.startswith("resourcequotas/")}
    used = {
        name
        for quota in quotas.values()
        for name, amount in quota["status"]["used"].items()
        if amount != "0"
    }
    assert used == {*resourcequota_random.NAMES, *resourcequota_random.TERMINATING}
