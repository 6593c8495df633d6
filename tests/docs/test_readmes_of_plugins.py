"""The READMEs of plugins name the tests that show each Difference."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = sorted(ROOT.glob("plugins/*/README.md"))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_tests_that_are_named_are_there(readme: Path) -> None:
    """A reader who looks for one finds it."""
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", readme.read_text()))
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"def (test_[a-z0-9_]+)", text)}
    assert sorted(named - there) == []
