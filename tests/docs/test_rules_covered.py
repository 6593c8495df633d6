"""Every rule about the controllers is cited by a test, unless there is nothing to test."""

import re
from pathlib import Path

from docs.rules import CONTROLLER_AREAS, naming, said
from pages import ROOT

RULE = naming(CONTROLLER_AREAS)
#: `RQ-10 to 13`, `RC-20, 21 and 23`, `SC-T1..T4`.
CHAIN = re.compile(
    rf"\b({CONTROLLER_AREAS})-[TB]?\d+[a-z]?"
    rf"(?:(?:, | and | to |\.\.)(?:(?:{CONTROLLER_AREAS})-)?[TB]?\d+[a-z]?\b)+"
)
LINK = re.compile(r"(, | and | to |\.\.|^)([A-Z]+-)?([TB]?)(\d+)")
SCENARIO = re.compile(r"\bT-\d+")

#: Rules that say nothing a test of ours could show, with the reason.
WITHOUT_TEST = {
    "what the API server does by itself": ("SC-132 to 134", "RQ-255", "RQ-258", "RQ-259"),
    "a resync that we do not have": ("RQ-6",),
    "how the reference is built inside": (
        "CRA-20",
        "CRA-29",
        "TTL-28",
        "RQ-33",
        "RQ-217",
        "RQ-218",
        "RQ-221",
        "RQ-228",
    ),
    "its log lines, and metrics it does not have": ("RQ-235", "RQ-310", "RQ-311"),
    "workers and a brake that are settings here": ("CRA-2", "TTL-80"),
    "a way for servers without apply, which is not built": ("CRA-60 to 62",),
    "what users must be allowed to do": ("CRA-91",),
    "a stop, which is the same for all controllers": ("RQ-17",),
}

BROAD = {Path(__file__), ROOT / "tests" / "parity" / "workloads"}


def named(text: str) -> set[str]:
    """Return the rules that a text names, those within ranges too."""
    rules = {match[0] for match in RULE.finditer(text)}
    for chain in CHAIN.finditer(text):
        kind, last = "", 0
        for link, area, own_kind, digits in LINK.findall(chain[0].partition("-")[2]):
            kind, number = own_kind if area else own_kind or kind, int(digits)
            first = last if link in (" to ", "..") else number
            rules |= {f"{chain[1]}-{kind}{one}" for one in range(first, number + 1)}
            last = number
    return rules


def other_texts() -> list[str]:
    """Return the texts of all tests but these; random workloads show nothing in particular."""
    pages = (ROOT / "tests").rglob("*.py")
    return [path.read_text() for path in pages if path not in BROAD and path.parent not in BROAD]


def test_every_rule_is_cited_by_a_test() -> None:
    """A rule without a test stands in the list above, and nothing else does."""
    rules = said(CONTROLLER_AREAS)
    assert len(rules) > 850
    exempt = {rule for some in WITHOUT_TEST.values() for text in some for rule in named(text)}
    cited = set().union(*map(named, other_texts()))
    assert sorted(rules - cited - exempt) == []
    assert sorted(exempt - rules) == []
    assert sorted(exempt & cited) == []


def test_every_scenario_of_resourceclaim_is_cited_by_a_test() -> None:
    """They have no prefix of their own: `T-1` to `T-94`."""
    page = (ROOT / "docs" / "spec" / "resourceclaim.md").read_text()
    scenarios = set(re.findall(r"^- \*\*(T-\d+)\*\*", page, re.MULTILINE))
    assert len(scenarios) > 80
    folder = ROOT / "tests" / "plugins" / "resourceclaim"
    cited = {one for path in folder.glob("*.py") for one in SCENARIO.findall(path.read_text())}
    assert sorted(scenarios - cited) == []


def test_chains_are_read_whole() -> None:
    """Ranges and lists stand for all that they hold."""
    assert named("RQ-10 to 13") == {"RQ-10", "RQ-11", "RQ-12", "RQ-13"}
    assert named("SC-T1..T3") == {"SC-T1", "SC-T2", "SC-T3"}
    assert named("CRA-T20, CRA-70, 71") == {"CRA-T20", "CRA-70", "CRA-71"}
    assert named("(RC-20, 22 and RC-24)") == {"RC-20", "RC-22", "RC-24"}
