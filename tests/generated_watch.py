"""Lines of watches: how tests read them, and a watch whose lines are generated."""

from collections.abc import AsyncIterator

from kcm_host.client.http.lines import HandleLine
from kcm_host.client.rest import Watch


class Lines(list[bytes]):
    """Handler of a watch that keeps its lines, and wants all of them."""

    def __call__(self, line: bytes) -> bool:
        self.append(line)
        return False


async def next_line(watch: Watch) -> bytes:
    """Return the next line of a watch, which has one."""
    found: list[bytes] = []

    def take(line: bytes) -> bool:
        found.append(line)
        return True

    assert await watch.for_each(take) == 1
    return found[0]


async def rest_of(watch: Watch) -> list[bytes]:
    """Return the lines until the watch ends."""
    found = Lines()
    await watch.for_each(found)
    return found


class GeneratedWatch:
    """Has what a reflector uses of `kcm_host.client.rest.Watch`."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def for_each(self, handle: HandleLine) -> int:
        """See `Watch`."""
        count = 0
        async for line in self._lines:
            count += 1
            if handle(line):
                break
        return count
