"""Waiting in tests: for a condition, with a deadline and never for luck."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.03
#: For hangs only: no test waits this long for what works, on however slow a machine.
PATIENCE_SECONDS = 60.0


def eventually(
    read: Callable[[], T | None], what: str, *, timeout_seconds: float = PATIENCE_SECONDS
) -> T:
    """Return the first truthy answer of `read`; `AssertionError` names `what` and the last one."""
    deadline = time.monotonic() + timeout_seconds
    while not (answer := read()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds:g} s: {what}; last: {answer!r}")
        time.sleep(POLL_SECONDS)
    return answer
