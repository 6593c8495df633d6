"""An event loop that stands still is seen, blamed on the right plugin, and cleared again."""

import logging
import threading
from collections.abc import Iterator

import pytest
from host.observe.conftest import Blocker, LoopThread
from logged import logged

from kcm_host.observe.watchdog import Watchdog

PLUGINS = {"acme_loops": "acme"}


@pytest.fixture
def watchdog(loop_thread: LoopThread) -> Iterator[Watchdog]:
    """Return a watchdog that looks often, and calls half a second a stall."""
    watchdog = Watchdog(loop_thread.loop, plugins=PLUGINS, limit_seconds=0.5, check_seconds=0.02)
    loop_thread.call(watchdog.start)
    yield watchdog
    watchdog.stop()


def test_blocking_plugin_is_named_once_with_its_stack(
    watchdog: Watchdog, loop_thread: LoopThread, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    """A stall is logged once, with the controller and the stack that hold the loop."""
    blocker.block(loop_thread)
    loop_thread.until(lambda: watchdog.stalled_seconds() > 1.0)
    [pairs] = logged(caplog, "event loop stalled")
    assert pairs["controller"] == "acme"
    assert "acme_loops.loop:4 slow" in pairs["stack"]
    assert watchdog.plugin == "acme"


def test_each_end_of_a_stall_is_logged_with_its_length(
    watchdog: Watchdog, loop_thread: LoopThread, blocker: Blocker, caplog: pytest.LogCaptureFixture
) -> None:
    """When the loop runs again, that is logged with the time it stood, and nobody is blamed."""

    def until_logged(event: str, count: int) -> None:
        loop_thread.until(lambda: len(logged(caplog, event)) == count)

    for count in (1, 2):
        blocker.entered.clear()
        blocker.released.clear()
        blocker.block(loop_thread)
        until_logged("event loop stalled", count)
        blocker.released.set()
        until_logged("event loop stall ended", count)
    ends = logged(caplog, "event loop stall ended")
    assert [pairs["controller"] for pairs in ends] == ["acme", "acme"]
    assert min(pairs["seconds"] for pairs in ends) >= 0.5
    assert (watchdog.stalled_seconds(), watchdog.plugin) == (0.0, "")


def test_stall_outside_of_plugins_names_no_controller(
    watchdog: Watchdog, loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """A stall in code of no known plugin is logged as `unknown`, with its stack."""
    release = threading.Event()
    loop_thread.loop.call_soon_threadsafe(release.wait, 30)
    loop_thread.until(lambda: logged(caplog, "event loop stalled"))
    release.set()
    [pairs] = logged(caplog, "event loop stalled")
    assert pairs["controller"] == "unknown"
    assert "threading" in pairs["stack"]
    assert watchdog.plugin == ""


def test_busy_loop_is_not_a_stalled_one(
    watchdog: Watchdog, loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop that always has something to do but keeps turning is never called stalled."""
    turns = 0
    ended = threading.Event()

    def turn(until: float) -> None:
        nonlocal turns
        turns += 1
        if loop_thread.loop.time() < until:
            loop_thread.loop.call_soon(turn, until)
        else:
            ended.set()

    loop_thread.call(lambda: turn(loop_thread.loop.time() + 1.0))
    assert ended.wait(20)
    assert turns > 10
    assert logged(caplog, "event loop stalled") == []


def test_watchdog_ends_with_its_loop(
    loop_thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Stopping leaves no thread, also for a watchdog that never began."""
    caplog.set_level(logging.WARNING)
    idle = Watchdog(loop_thread.loop, plugins={})
    idle.stop()
    watchdog = Watchdog(loop_thread.loop, plugins={})
    loop_thread.call(watchdog.start)
    assert "kcm-host-watchdog" in {thread.name for thread in threading.enumerate()}
    watchdog.stop()
    assert "kcm-host-watchdog" not in {thread.name for thread in threading.enumerate()}
