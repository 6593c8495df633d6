"""Every declared Difference of a controller stands in the README of its plugin."""

import re

import pytest
from pages import ROOT
from parity.differences import DIFFERENCES, Difference

OF_CONTROLLERS = [one for one in DIFFERENCES if re.search(r" [a-z]$", one.name)]


@pytest.mark.parametrize("difference", OF_CONTROLLERS, ids=lambda one: one.name)
def test_a_difference_is_a_row_of_the_readme(difference: Difference) -> None:
    """`ttl d` is row d of the table of Differences of the plugin ttl, with the same rule."""
    plugin, letter = difference.name.rsplit(" ", 1)
    readme = (ROOT / "plugins" / plugin.replace("-", "_") / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith(f"| {letter} |")]
    assert rows, f"no row '{letter}' in the Differences of {plugin}"
    assert difference.rule.split(",")[0] in rows[0]
