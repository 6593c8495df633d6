"""Addresses are a scenario's own, and are told without its number; and steps may wait for time."""

from parity.nets import is_in_own_net, with_own_nets, without_nets
from parity.normalise import normalised
from parity.scenario import Scenario, owned
from parity.steps import Look, Wait


def test_each_prefix_has_addresses_of_its_own() -> None:
    """`$` in an address becomes a number, and a prefix elsewhere; 10.0.0.0 is the server's."""
    given = {"$a": ["10.$.0.0/24", "fd00:$::/112", "$b at 10.$.0.7"]}
    assert owned(given, "s000z-") == {
        "s000z-a": ["10.1.0.0/24", "fd00:1::/112", "s000z-b at 10.1.0.7"]
    }
    assert with_own_nets("10.$.0.1", "s039z-") == "10.40.0.1"


def test_the_number_does_not_count() -> None:
    """It is taken out of addresses, and of nothing that only looks a little like one."""
    for text in ("10.$.0.7", "fd00:$::5", '["10.$.0.0/24", "fd00:$::/112"]', "at 10.$.0.7."):
        assert without_nets(with_own_nets(text, "s003z-"), "s003z-") == text
    for text in (
        "10.40.0.7",
        "110.4.0.7",
        "1.10.4.0",
        "fd00:40::5",
        "10.4",
        "took 10.4.",
        "v10.4.1",
    ):
        assert without_nets(text, "s003z-") == text


def test_an_address_belongs_to_one_scenario() -> None:
    """By its name, which holds no prefix."""
    assert is_in_own_net("10.4.0.7", "s003z-")
    assert is_in_own_net("fd00:4::7", "s003z-")
    assert not is_in_own_net("10.4.0.7", "s000z-")
    assert not is_in_own_net("10.0.0.1", "s000z-")


def test_addresses_are_named_alike_on_both_sides() -> None:
    """An IPAddress is found under the same reference whatever the number was."""
    item = {"kind": "IPAddress", "metadata": {"name": "10.4.0.7", "uid": "u"}}
    found = normalised({"ipaddresses": [item]}, "s003z-")
    assert list(found) == ["ipaddresses/10.$.0.7"]


def test_a_wait_ends_a_round() -> None:
    """What comes after it is done when the time has passed."""
    scenario = Scenario("a", "servicecidrs", "SC-62", (Wait(10.5), Look("after it")))
    assert [one.end for one in scenario.rounds[:2]] == [Wait(10.5), Look("after it")]
    assert "wait 10.5 s" in scenario.told()
