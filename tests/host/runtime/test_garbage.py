"""Garbage is collected also when it has grown old."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from kcm_host.runtime.process import COLLECT_SECONDS, collect_garbage


class Circle:
    """Refers to itself, as a closed connection does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[None]:
    """Leave the garbage collector as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.virtual_time
@pytest.mark.usefixtures("collector")
async def test_old_garbage_goes_within_minutes() -> None:
    """What lived through a collection is freed by the next complete one (F-13, soak)."""
    synced = asyncio.Event()
    task = asyncio.create_task(collect_garbage([synced]))
    gc.disable()
    await asyncio.sleep(1)
    assert not gc.isenabled(), "the caches are filling"
    synced.set()
    await asyncio.sleep(1)
    assert gc.isenabled()
    circle = Circle()
    gc.collect()
    gone = weakref.ref(circle)
    del circle
    assert gone() is not None
    await asyncio.sleep(COLLECT_SECONDS)
    assert gone() is None
    task.cancel()


@pytest.mark.virtual_time
@pytest.mark.usefixtures("collector")
async def test_a_controller_that_never_knows_its_objects_keeps_nobody_waiting() -> None:
    """After a minute garbage is collected in any case (F-13)."""
    task = asyncio.create_task(collect_garbage([asyncio.Event()]))
    gc.disable()
    await asyncio.sleep(61)
    assert gc.isenabled()
    task.cancel()
