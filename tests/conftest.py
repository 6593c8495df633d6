"""Which event loop an async test runs on: the real clock, or a virtual one where it is marked."""

import asyncio
import signal
from collections.abc import Callable, Mapping

import pytest
from virtual_time import VirtualTimeLoop


def pytest_configure(config: pytest.Config) -> None:
    """Register our own marker, and let everybody hear interrupts."""
    # A shell that runs the tests in the background has them ignored, and processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers",
        "virtual_time: run the async test on a loop whose clock jumps ahead when nothing is ready",
    )


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give the one loop that the test and its async fixtures run on."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
