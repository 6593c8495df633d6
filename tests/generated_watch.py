"""Lines of watches: one that is generated, and a handler that keeps all."""

from collections.abc import AsyncIterator

from kcm_host.client.http.lines import HandleLine


class Lines(list[bytes]):
    """Handler of a watch that keeps its lines, and wants all of them."""

    def __call__(self, line: bytes) -> bool:
        self.append(line)
        return False


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
