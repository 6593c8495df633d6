"""Background tasks of the host that end are logged and restarted (F-10)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from eventually import eventually
from host.runtime.definitions import Definitions
from host.runtime.loops import Loops, choosing, until_synced
from logged import logged

from kcm_host.retries import keep_running

Begin = Callable[[], Awaitable[None]]
#: How long the first waits may be at most: 0.8 s, 1.6 s, 3.2 s, each doubled by chance.
THREE_WAITS = 12.0


@pytest.fixture
async def keep() -> AsyncIterator[Callable[..., asyncio.Task[None]]]:
    """Keep tasks running until the test ends."""
    tasks: list[asyncio.Task[None]] = []

    def start(begin: Begin, **options: bool) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(keep_running("acme", begin, **options)))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged problems of ended tasks."""
    lines = logged(caplog, "background task ended")
    assert {line["task"] for line in lines} <= {"acme"}
    return [line["problem"] for line in lines]


async def raises() -> None:
    """Fail."""
    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte")


async def leaves() -> None:
    """End the process, or try to."""
    raise SystemExit(3)


async def returns() -> None:
    """End."""


async def awaits_a_cancelled_task() -> None:
    """Meet a cancellation that was not meant for it."""
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (raises, "it raised UnicodeDecodeError: "),
        (leaves, "it raised SystemExit: 3"),
        (returns, "it returned"),
        (awaits_a_cancelled_task, "it awaited a task that was cancelled"),
    ],
)
async def test_a_task_that_ends_is_logged_and_restarted(
    keep: Any, end: Begin, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever ends it, and as often as it ends, with waits in between (F-10)."""
    begun = 0

    async def begin() -> None:
        nonlocal begun
        begun += 1
        await (end() if begun <= 3 else asyncio.sleep(3600))

    keep(begin)
    await asyncio.sleep(0.1)
    assert begun == 1
    await asyncio.sleep(THREE_WAITS)
    assert begun == 4
    told = problems(caplog)
    assert len(told) == 3
    assert all(one.startswith(problem) for one in told)


@pytest.mark.virtual_time
async def test_a_task_may_be_allowed_to_end(keep: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Returning is its end; an error is not (F-10)."""
    begun: list[None] = []

    async def begin() -> None:
        begun.append(None)
        if len(begun) == 1:
            await raises()

    task = keep(begin, may_end=True)
    await asyncio.sleep(THREE_WAITS)
    assert task.done()
    assert len(begun) == 2
    assert len(problems(caplog)) == 1


#: Fails the first time; the module is in the host's process.
BROKEN_DISCOVERY = """
from kcm_host.runtime import discovery_poller
from kcm_host.client.discovery import CachedDiscoveryClient

discovery_poller.POLL_SECONDS = 0.2
poll, failures = CachedDiscoveryClient.poll, iter([RuntimeError("broken once")])

async def broken_once(self):
    for failure in failures:
        raise failure
    return await poll(self)

CachedDiscoveryClient.poll = broken_once
"""


def test_new_kinds_are_found_after_an_error_of_the_poller(
    loops: Loops, definitions: Definitions
) -> None:
    """The poller goes on after an unexpected error (F-10)."""
    source = choosing(loops.namespace, definitions.group, "Widget")
    loops.site.plugin("choosing", source + BROKEN_DISCOVERY)
    host = loops.run("choosing")
    (line,) = eventually(lambda: host.log("background task ended"), "the failure is logged")
    assert (line["task"], line["level"]) == ("discovery", "error")
    assert line["problem"] == "it raised RuntimeError: broken once"
    definitions.create("Widget")
    definitions.create_objects("Widget", loops.namespace, "w")
    until_synced(host, "choosing", ["w"])
