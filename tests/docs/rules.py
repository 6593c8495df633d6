"""The rules that the specifications in docs/spec say, by their names."""

import re

from pages import ROOT

CONTROLLER_AREAS = "TTL|CRA|SC|RC|RQ|QV|QA"
#: Those of the controllers and of the host.
AREAS = f"{CONTROLLER_AREAS}|IQ|H"


def naming(areas: str) -> re.Pattern[str]:
    """Return the pattern of the name of a rule or scenario in one of these areas."""
    return re.compile(rf"\b({areas})-([TB]?)(\d+[a-z]?)")


def said(areas: str) -> set[str]:
    """Return the rules of these areas that the specifications say."""
    rule = naming(areas)
    # Where they say one: in the first cell of a row, or at the head of a paragraph.
    beginning = re.compile(rf"^(?:\||\*\*|(?={rule.pattern}[: ]))")
    rules: set[str] = set()
    for page in (ROOT / "docs" / "spec").glob("*.md"):
        for line in page.read_text().splitlines():
            if beginning.match(line):
                head = line.split("|")[1] if line.startswith("|") else line.split(" ")[0]
                rules.update(match[0] for match in rule.finditer(head))
    return rules
