"""The virtual clock costs no time, keeps order, and never hides that a test is stuck."""

import asyncio
import time

import pytest
from virtual_time import BEGINNING, Deadlock, VirtualTimeLoop


@pytest.fixture
async def begun() -> float:
    """The loop's time when the test began."""
    return asyncio.get_running_loop().time()


@pytest.mark.virtual_time
async def test_long_waits_cost_nothing(begun: float) -> None:
    """A thousand seconds and a day pass on the loop's clock, exactly, and not on the real one."""
    really = time.monotonic()
    for seconds in (1000.0, 86400.0 * 3):
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        assert asyncio.get_running_loop().time() == before + seconds
    assert begun == BEGINNING
    assert time.monotonic() - really < 600


@pytest.mark.virtual_time
async def test_waits_end_in_the_order_of_their_times() -> None:
    """Three sleepers wake in the order of their times, each at its own time."""
    woken = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, asyncio.get_running_loop().time() - BEGINNING))

    await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2)))
    assert woken == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.virtual_time
async def test_a_time_limit_strikes() -> None:
    """A wait for something that never comes ends at its limit and is no deadlock."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == BEGINNING + 60


async def test_unmarked_tests_have_the_real_clock() -> None:
    """Without the marker the loop's clock is the machine's."""
    loop = asyncio.get_running_loop()
    assert not isinstance(loop, VirtualTimeLoop)
    assert abs(loop.time() - time.monotonic()) < 5


def run(coroutine: object) -> None:
    """Run a coroutine in virtual time, outside of pytest's own loop."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(coroutine)  # type: ignore[arg-type] # coroutines of several results


def test_a_deadlock_is_an_error_that_says_who_waits() -> None:
    """When nothing can ever happen again, the run ends with the names of the waiting tasks."""

    async def stuck() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="the forgotten one")
        await task

    with pytest.raises(Deadlock, match="the forgotten one"):
        run(stuck())


def test_threads_are_refused() -> None:
    """A thread would be overtaken by the clock, so it is refused."""
    with pytest.raises(AssertionError, match="cannot wait for threads"):
        run(asyncio.to_thread(time.sleep, 0))


def test_sockets_are_refused() -> None:
    """An answer over the network would be overtaken by the clock, so it is refused."""

    async def serve() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        async with server:
            await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="cannot wait for sockets"):
        run(serve())
