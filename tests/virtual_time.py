"""The event loop on a virtual clock, which is a part of the test kit."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from kcm_host_testing.virtual_time import BEGINNING, Deadlock, VirtualTimeLoop

__all__ = ["BEGINNING", "Deadlock", "VirtualTimeLoop", "run_in_virtual_time"]

T = TypeVar("T")


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Return the result of `main`, run on a loop of its own: each input of hypothesis has one."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
