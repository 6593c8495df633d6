"""Links lead somewhere, and cited rules exist."""

import re
from pathlib import Path

import pytest
from docs.rules import AREAS, naming, said
from pages import ROOT, files, pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
RULE = naming(AREAS)
#: `IQ-70..89`, `CRA-23 to 26`, `TTL-T18 to TTL-T20`: the ends must exist; so must each in a list.
RANGE = re.compile(
    rf"\b(?P<area>{AREAS})-(?P<kind>[TB]?)(?P<first>\d+[a-z]?)"
    r"(?P<more>(?:(?:, | and | to |\.\.)(?:(?P=area)-)?[TB]?\d+[a-z]?\b(?! of| ms| s\b|:))+)"
)
EVERYWHERE = [*files(".py", ".md")]


def cited(text: str) -> set[str]:
    """Return the rules that a text names, in ranges and lists too."""
    rules = {match[0] for match in RULE.finditer(text)}
    for match in RANGE.finditer(text):
        for kind, number in re.findall(r"([TB]?)(\d+[a-z]?)\b", match["more"]):
            rules.add(f"{match['area']}-{kind}{number}")
    return rules


def is_known(rule: str, known: set[str]) -> bool:
    """Return whether a rule exists; in `TTL-T18, 30` a bare number may be a rule or a scenario."""
    return rule in known or rule.replace("-", "-T") in known


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page make."""
    text = CODE.sub(lambda code: code[0] if "\n" not in code[0] else "", page.read_text())
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    """A file that is linked exists, and has the heading that is named."""
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"'{link}' leads nowhere"
        assert ROOT in target.parents, f"'{link}' leaves the project"
        assert not anchor or anchor in anchors(target), f"'{link}': there is no such heading"


def test_cited_rules_exist() -> None:
    """Whatever a test, a comment or a page cites stands in docs/spec."""
    known = said(AREAS)
    assert len(known) > 300
    wrong = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path in EVERYWHERE
        if path != Path(__file__)
        for rule in cited(path.read_text())
        if not is_known(rule, known)
    }
    assert wrong == set()


def test_ranges_and_lists_are_understood() -> None:
    """A rule that only stands as the end of a range or in a list is seen too."""
    assert cited("IQ-70..89") == {"IQ-70", "IQ-89"}
    assert cited("(CRA-23 to CRA-26)") == {"CRA-23", "CRA-26"}
    assert cited("IQ-34, 63, 64, 66: none") == {"IQ-34", "IQ-63", "IQ-64"}
    assert cited("TTL-T18 to T20, 30") == {"TTL-T18", "TTL-T20", "TTL-30"}
