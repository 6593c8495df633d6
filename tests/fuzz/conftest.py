"""Prints how many random inputs were tried."""

import pytest
from fuzz_input import TRIED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line a sort of input."""
    if TRIED:
        terminalreporter.section("random inputs tried")
        for sort, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>9,}  {sort}")
