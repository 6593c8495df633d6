"""What an error answer leaves in memory: nothing."""

import gc

import pytest
from host.client.raw_servers import client_of, get, saying

from kcm_host.api.errors import Conflict

CONFLICT = b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def conflicts() -> list[Conflict]:
    """Return all conflicts that the garbage collector knows."""
    # By the type: `isinstance` asks a weak proxy of another test for the class of what is gone.
    return [each for each in gc.get_objects() if issubclass(type(each), Conflict)]


async def test_error_answers_leave_nothing_to_the_garbage_collector() -> None:
    """A host whose writes are refused for hours does not grow between two collections (soak)."""
    async with client_of(saying(CONFLICT)) as client:
        gc.disable()
        try:
            # Those of other tests, held here so that no new one can take their place in memory.
            before = conflicts()
            with pytest.raises(Conflict):
                await get(client)
            assert len(conflicts()) == len(before)
        finally:
            gc.enable()
