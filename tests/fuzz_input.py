"""What every test with random data from outside counts and asserts."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: CPU seconds of this thread that one input may take. A second is what users are promised; where
#: other work keeps the cores busy, the same takes several times the CPU time.
MOST_SECONDS = 5.0

#: How many inputs of each sort were tried in this run.
TRIED: Counter[str] = Counter()


@contextmanager
def one_input(sort: str, *, refused_by: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """
    Count one input of `sort`, and fail when reading it takes seconds of CPU.

    `refused_by` are the errors with which a reader may refuse an input; any other fails the test.
    """
    TRIED[sort] += 1
    started = time.thread_time()
    with suppress(*refused_by):
        yield
    seconds = time.thread_time() - started
    assert seconds < MOST_SECONDS, f"{sort}: one input took {seconds:.1f} s of CPU"
