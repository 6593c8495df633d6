"""How long failed keys wait: exponentially each, and together no more than ten a second."""

import pytest
from clocks import Clock

from kcm_host.api.kinds import Key
from kcm_host.workqueue.rate_limiter import RetryRateLimiter, TokenBucket

A, B = Key("a"), Key("b")

#: Seconds: 5 ms, doubled at every failure, at most 1000 s.
WAITS = [0.005 * 2**number for number in range(18)] + [1000.0] * 2


@pytest.fixture
def clock() -> Clock:
    """A clock at rest."""
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> RetryRateLimiter:
    """A limiter without failures."""
    return RetryRateLimiter(clock)


def test_one_key_waits_ever_longer(limiter: RetryRateLimiter) -> None:
    """The whole sequence, from 5 ms to 655.36 s and then 1000 s for ever (IQ-76)."""
    assert [limiter.next_delay(A) for _ in WAITS] == pytest.approx(WAITS)
    assert WAITS[:3] == [0.005, 0.010, 0.020]
    assert WAITS[17] == pytest.approx(655.36)


def test_ever_more_failures_never_overflow(limiter: RetryRateLimiter, clock: Clock) -> None:
    """After five thousand failures the wait is still 1000 s and they are counted (IQ-76)."""
    for _ in range(5000):
        clock.now += 1000
        wait = limiter.next_delay(A)
    assert wait == 1000
    assert limiter.failures(A) == 5000


def test_success_begins_the_sequence_anew(limiter: RetryRateLimiter) -> None:
    """`forget` sets one key's failures to none; doing it twice is fine (IQ-76)."""
    for key in (A, A, A, B):
        limiter.next_delay(key)
    limiter.forget(A)
    limiter.forget(A)
    assert (limiter.failures(A), limiter.failures(B)) == (0, 1)
    assert limiter.next_delay(A) == 0.005


def test_the_bucket_begins_full_and_is_refilled(clock: Clock) -> None:
    """A hundred are free at once; then one every 0.1 s, and after a pause ten a second (IQ-77)."""
    bucket = TokenBucket(10, 100, clock)
    assert [bucket.reserve() for _ in range(102)] == pytest.approx([0] * 100 + [0.1, 0.2])
    clock.now += 1
    assert [bucket.reserve() for _ in range(10)] == pytest.approx([0] * 8 + [0.1, 0.2])


def test_the_bucket_never_holds_more_than_its_size(clock: Clock) -> None:
    """However long nothing was taken, no more than a hundred are free at once (IQ-77)."""
    bucket = TokenBucket(10, 100, clock)
    clock.now += 86400
    assert [bucket.reserve() for _ in range(101)] == pytest.approx([0] * 100 + [0.1])


def test_every_failure_takes_a_token(limiter: RetryRateLimiter) -> None:
    """A hundred failures of one key, each with a long wait of its own, empty the bucket (IQ-78)."""
    for _ in range(100):
        limiter.next_delay(A)
    assert limiter.next_delay(B) == pytest.approx(0.1)


def test_success_returns_no_token(limiter: RetryRateLimiter) -> None:
    """Forgetting a key leaves the bucket as it is (IQ-77)."""
    for _ in range(100):
        limiter.next_delay(A)
        limiter.forget(A)
    assert limiter.next_delay(A) == pytest.approx(0.1)


def test_the_longer_wait_counts(limiter: RetryRateLimiter) -> None:
    """With an empty bucket the bucket decides, until a key's own wait is longer (IQ-78, IQ-79)."""
    for number in range(100):
        limiter.next_delay(Key(f"k{number}"))
    waits = [limiter.next_delay(A) for _ in range(10)]
    own, shared = WAITS[:10], [number / 10 for number in range(1, 11)]
    assert waits == pytest.approx([max(pair) for pair in zip(own, shared, strict=True)])
    assert waits[0] == pytest.approx(0.1)
    assert waits[9] == pytest.approx(2.56)


def test_the_most_failing_keys_are_first(limiter: RetryRateLimiter) -> None:
    """Of the failing keys the ones with the most failures are shown."""
    for failures in (1, 3, 2):
        for _ in range(failures):
            limiter.next_delay(Key(f"failed-{failures}"))
    most = limiter.most_failing(2)
    assert list(most) == [Key("failed-3"), Key("failed-2")]
    assert [one.failures for one in most.values()] == [3, 2]
