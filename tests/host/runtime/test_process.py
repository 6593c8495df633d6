"""The process: garbage collection, memory that is returned to the system, the file limit."""

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from kcm_host.runtime.process import COLLECT_SECONDS, collect_garbage

#: Frees every second of many buffers, as connections of a burst are freed, and prints the resident
#: memory in MiB before and after what the process does every five minutes.
HOLES = """
import asyncio
import re
from pathlib import Path
from kcm_host.runtime import process

def resident():
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", text)[1]) // 1024

async def main():
    process.COLLECT_SECONDS = 0.1
    # One large buffer that is freed raises the size from which glibc maps buffers apart.
    bytearray(8 << 20)
    buffers = [bytearray(256 << 10) for _ in range(400)]
    del buffers[::2]
    before = resident()
    synced = asyncio.Event()
    synced.set()
    asyncio.create_task(process.collect_garbage([synced]))
    while resident() > before - 25 and asyncio.get_running_loop().time() < limit:
        await asyncio.sleep(0.05)
    print(before, resident())

import time
limit = time.monotonic() + 60
asyncio.run(main())
"""


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
async def test_old_garbage_is_collected_within_minutes() -> None:
    """Garbage of the oldest generation is freed by the next full collection (F-13, soak)."""
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
async def test_a_controller_that_never_syncs_its_caches_delays_nothing() -> None:
    """After a minute garbage is collected in any case (F-13)."""
    task = asyncio.create_task(collect_garbage([asyncio.Event()]))
    gc.disable()
    await asyncio.sleep(61)
    assert gc.isenabled()
    task.cancel()


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this function")
def test_free_memory_goes_back_to_the_system() -> None:
    """Free memory of a burst of connections does not stay resident (soak)."""
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before - 25, f"{before} MiB before, {after} MiB after"


FILE_LIMIT = """
import resource
from kcm_host.runtime import process
process.MAX_FILES = {maximum}
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
print(process.raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "maximum", "found"),
    [
        pytest.param(64, 256, 65_536, "256 256 256", id="to the hard limit"),
        pytest.param(64, 256, 128, "128 128 256", id="to the maximum"),
        pytest.param(200, 256, 128, "200 200 256", id="never lowered"),
    ],
)
def test_soft_limit_is_raised(soft: int, hard: int, maximum: int, found: str) -> None:
    """The soft limit becomes the hard limit, with a maximum (F-15)."""
    program = FILE_LIMIT.format(soft=soft, hard=hard, maximum=maximum)
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.strip() == found
