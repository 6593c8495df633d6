"""The write rate limiter serves callers in FIFO order and loses no token."""

import asyncio
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import VirtualTimeLoop

from kcm_host.workqueue.rate_limiter import WriteRateLimiter

#: Times are eighths of seconds, cancellations lie between them: no two things at one moment.
EIGHTH = Fraction(1, 8)


class Request(msgspec.Struct, frozen=True):
    """A caller `gap` eighths after the one before, cancelled after `timeout` eighths, if any."""

    gap: int
    timeout: int | None


REQUESTS = st.lists(
    st.builds(Request, gap=st.integers(0, 12), timeout=st.none() | st.integers(0, 60)), max_size=40
)


def expected(requests: list[Request], rate: Fraction, burst: int) -> list[Fraction | None]:
    """Return when each request gets its token, by exact arithmetic, one after the other."""
    times: list[Fraction | None] = []
    tokens, filled = Fraction(burst), Fraction(0)
    asked = free = Fraction(0)
    for request in requests:
        asked += request.gap * EIGHTH
        first = max(asked, free)
        there = min(Fraction(burst), tokens + (first - filled) * rate)
        time = first + max(Fraction(0), (1 - there) / rate)
        if request.timeout is not None and time > _timeout_at(asked, request.timeout):
            times.append(None)
            free = max(free, _timeout_at(asked, request.timeout))
            continue
        tokens = min(Fraction(burst), tokens + (time - filled) * rate) - 1
        filled = free = time
        times.append(time)
    return times


def _timeout_at(asked: Fraction, timeout: int) -> Fraction:
    return asked + timeout * EIGHTH + EIGHTH / 2


async def actual_times(requests: list[Request], rate: float, burst: int) -> list[float | None]:
    """Make every request at its time; return when each got its token."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(rate, burst, loop.time), loop.time()

    async def one(eighths: int | None) -> float | None:
        limit = None if eighths is None else float(eighths * EIGHTH + EIGHTH / 2)
        try:
            async with asyncio.timeout(limit):
                await limiter.wait()
        except TimeoutError:
            return None
        return loop.time() - begun

    tasks = []
    for request in requests:
        await asyncio.sleep(float(request.gap * EIGHTH))
        tasks.append(asyncio.create_task(one(request.timeout)))
        await asyncio.sleep(0)
    return list(await asyncio.gather(*tasks))


@given(REQUESTS, st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), st.integers(1, 5))
def test_the_limiter_does_what_the_model_does(
    requests: list[Request], rate: float, burst: int
) -> None:
    """Tokens are taken at the same times as in the model, also with cancellations (F-11)."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        times = runner.run(actual_times(requests, rate, burst))
    worked_out = expected(requests, Fraction(rate), burst)
    assert times == [None if time is None else pytest.approx(float(time)) for time in worked_out]


@pytest.mark.virtual_time
async def test_a_pause_blocks_all_and_takes_no_token() -> None:
    """Tokens follow after the longest pause; a cancelled caller takes none (IQ-111, F-11)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(1, 1, loop.time), loop.time()
    limiter.pause(10)
    limiter.pause(5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await limiter.wait()
    await limiter.wait()
    assert loop.time() - begun == pytest.approx(10)
    await limiter.wait()
    assert loop.time() - begun == pytest.approx(11)


@pytest.mark.virtual_time
async def test_without_a_rate_nobody_waits() -> None:
    """Only a pause delays callers (IQ-110)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(None, None, loop.time), loop.time()
    await asyncio.gather(*(limiter.wait() for _ in range(1000)))
    assert loop.time() == begun


@pytest.mark.virtual_time
async def test_a_short_pause_without_a_rate_is_kept() -> None:
    """A pause of half a second delays callers for that time, and no longer (IQ-111)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(None, None, loop.time), loop.time()
    limiter.pause(0.5)
    assert limiter.pause_seconds == 0.5
    for _ in range(100):
        await limiter.wait()
    assert loop.time() - begun == pytest.approx(0.5)
    assert limiter.pause_seconds == 0


@pytest.mark.virtual_time
@pytest.mark.parametrize(("qps", "at_once"), [(4.0, 4), (0.5, 1)])
async def test_the_default_burst_is_one_second(qps: float, at_once: int) -> None:
    """The burst is the tokens of one second, at least one; then they come one by one (IQ-111)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(qps, None, loop.time), loop.time()
    times = []
    for _ in range(at_once + 2):
        await limiter.wait()
        times.append(loop.time() - begun)
    assert times == pytest.approx([0.0] * at_once + [1 / qps, 2 / qps])
