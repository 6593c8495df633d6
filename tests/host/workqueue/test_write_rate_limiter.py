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
    """Somebody who asks for a turn `gap` eighths after the one before, and may be cancelled."""

    gap: int
    patience: int | None


REQUESTS = st.lists(
    st.builds(Request, gap=st.integers(0, 12), patience=st.none() | st.integers(0, 60)),
    max_size=40,
)


def expected(requests: list[Request], rate: Fraction, burst: int) -> list[Fraction | None]:
    """Return when each request has its turn, by exact arithmetic, one after the other."""
    turns: list[Fraction | None] = []
    tokens, filled = Fraction(burst), Fraction(0)
    asked = free = Fraction(0)
    for request in requests:
        asked += request.gap * EIGHTH
        first = max(asked, free)
        there = min(Fraction(burst), tokens + (first - filled) * rate)
        turn = first + max(Fraction(0), (1 - there) / rate)
        if request.patience is not None and turn > _timeout_at(asked, request.patience):
            turns.append(None)
            free = max(free, _timeout_at(asked, request.patience))
            continue
        tokens = min(Fraction(burst), tokens + (turn - filled) * rate) - 1
        filled = free = turn
        turns.append(turn)
    return turns


def _timeout_at(asked: Fraction, patience: int) -> Fraction:
    return asked + patience * EIGHTH + EIGHTH / 2


async def actual_times(requests: list[Request], rate: float, burst: int) -> list[float | None]:
    """Let every request ask at its time; give when each had its turn."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(rate, burst, loop.time), loop.time()

    async def one(patience: int | None) -> float | None:
        limit = None if patience is None else float(patience * EIGHTH + EIGHTH / 2)
        try:
            async with asyncio.timeout(limit):
                await limiter.wait()
        except TimeoutError:
            return None
        return loop.time() - begun

    tasks = []
    for request in requests:
        await asyncio.sleep(float(request.gap * EIGHTH))
        tasks.append(asyncio.create_task(one(request.patience)))
        await asyncio.sleep(0)
    return list(await asyncio.gather(*tasks))


@given(REQUESTS, st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), st.integers(1, 5))
def test_the_limiter_does_what_the_model_does(
    requests: list[Request], rate: float, burst: int
) -> None:
    """Whoever asks and gives up when: the same turns at the same times as worked out (F-11)."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        turns = runner.run(actual_times(requests, rate, burst))
    worked_out = expected(requests, Fraction(rate), burst)
    assert turns == [None if turn is None else pytest.approx(float(turn)) for turn in worked_out]


@pytest.mark.virtual_time
async def test_a_pause_blocks_all_and_takes_no_token() -> None:
    """Turns go on after the longest pause; who gives up meanwhile takes none (IQ-111, F-11)."""
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
    """Only a pause holds anybody up (IQ-110)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(None, None, loop.time), loop.time()
    await asyncio.gather(*(limiter.wait() for _ in range(1000)))
    assert loop.time() == begun


@pytest.mark.virtual_time
async def test_a_short_pause_without_a_rate_is_kept() -> None:
    """Half a second asked for is half a second, and then there is always a turn (IQ-111)."""
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
    """So many turns at once as a second has, but one at the least; then one by one (IQ-111)."""
    loop = asyncio.get_running_loop()
    limiter, begun = WriteRateLimiter(qps, None, loop.time), loop.time()
    times = []
    for _ in range(at_once + 2):
        await limiter.wait()
        times.append(loop.time() - begun)
    assert times == pytest.approx([0.0] * at_once + [1 / qps, 2 / qps])
