"""The event loop of async tests, and how many random inputs a property test tries."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, Phase, settings
from virtual_time import VirtualTimeLoop

_TOO_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

# A run of all tests tries the same inputs every time; `make fuzz` draws new ones at each run.
settings.register_profile(
    "same", derandomize=True, database=None, deadline=None, suppress_health_check=_TOO_SLOW
)
settings.register_profile(
    "random",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=_TOO_SLOW,
)
# A mutant is tried by many tests: few inputs, and a failing one need not be made smaller.
settings.register_profile(
    "mutants",
    settings.get_profile("random"),
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("random" if "FUZZ_EXAMPLES" in os.environ else "same")


def pytest_configure(config: pytest.Config) -> None:
    """Register our own marker, and let everybody hear interrupts and hangups."""
    # A shell that runs the tests in the background, or `nohup`, has them ignored, and processes
    # inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.addinivalue_line(
        "markers",
        "virtual_time: run the async test on a loop whose clock jumps ahead when nothing is ready",
    )


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the one loop that the test and its async fixtures run on."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
