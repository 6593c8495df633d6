"""Repeats a measurement, the candidates in turn, and again where others disturbed it."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.candidates import Candidate
from bench.workload import Measure, Repetition

# Others may use a third of one core; beyond it times say more about them than about us.
MOST_FOR_OTHERS = 1 / 3


def repeated(
    measure: Measure,
    sides: Sequence[Candidate],
    *,
    count: int,
    attempts: int,
    say: Callable[[str], None],
) -> Mapping[str, Sequence[Repetition]]:
    """
    Return `count` repetitions of each candidate by its name: reference, ours, reference, ...

    Each is measured up to `attempts` times, until the machine was ours; the last one counts
    however disturbed it was.
    """
    done: dict[str, list[Repetition]] = {side.name: [] for side in sides}
    for number in range(1, count + 1):
        for side in sides:
            repetition = _undisturbed(partial(measure, side), side.name, attempts, say=say)
            say(f"{number}/{count} {side.name}: {_gist(repetition)}")
            done[side.name].append(repetition)
    return done


def _undisturbed(
    measure: Callable[[], Repetition], who: str, attempts: int, say: Callable[[str], None]
) -> Repetition:
    for attempt in range(1, attempts + 1):
        began = time.monotonic()
        repetition = measure()
        if repetition.others_share <= MOST_FOR_OTHERS or attempt == attempts:
            break
        say(
            f"{who}: others used {repetition.others_share:.0%} of a core, "
            f"so these {time.monotonic() - began:.0f} s are measured again"
        )
    return repetition


def _gist(repetition: Repetition) -> str:
    """Name the first two quantities, which every workload has in seconds."""
    some = list(repetition.values.items())[:2]
    values = ", ".join(f"{name} {value:.3g} s" for name, value in some)
    return f"{values} (others used {repetition.others_share:.0%} of a core)"
