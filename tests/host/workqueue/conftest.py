"""A work queue on the clock of the test's own event loop."""

import asyncio

import pytest

from kcm_host.workqueue.queue import WorkQueue


@pytest.fixture
async def queue() -> WorkQueue:
    """An empty queue."""
    return WorkQueue(asyncio.get_running_loop())
