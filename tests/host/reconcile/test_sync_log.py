"""What the log says about syncs: where one failed, what it did, which keys never come to rest."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
from host.reconcile.worker_rig import CAUSE, NODE, A, Rig
from logged import logged

from kcm_host.api.kinds import Key
from kcm_host.api.sync import Cause, Done, Outcome
from kcm_host.api.watch import View
from kcm_host.api.writes import Writer
from kcm_host.observe.logging import start_logging

pytestmark = pytest.mark.virtual_time

plugin_log = logging.getLogger("kcm_host_mine.plugin")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The stream of the log; the root logger is restored."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield io.StringIO()
    root.setLevel(level)
    root.handlers[:] = handlers


async def failing(key: Key, view: View, writer: Writer) -> Outcome:
    """Fail in the code of the plugin."""
    return Done() if key.namespace else int(key.name)  # type: ignore[return-value] # raises


@pytest.mark.parametrize("module", [__name__, "acme.plugin"], ids=["plugin", "another package"])
async def test_a_failure_has_its_place(
    rig: Rig, caplog: pytest.LogCaptureFixture, module: str
) -> None:
    """The log line of a failed sync names the innermost line of the plugin's package (F-65)."""
    rig.module = module
    await rig.sync_a(failing, seconds=0.001)
    (line,) = logged(caplog, "sync failed")
    number = failing.__code__.co_firstlineno + 2
    assert line.get("at") == (f"{__file__}:{number}" if module == __name__ else None)


async def test_the_last_error_of_a_key_is_in_the_state(rig: Rig) -> None:
    """What `/status` shows of a failing key has its failures and its last error (F-68)."""
    rig.queue.add(A, CAUSE)
    async with rig.working(failing):
        await asyncio.sleep(0.006)
        (one,) = rig.queue.state().failing.values()
    assert one.failures == 2
    assert one.error == "ValueError: invalid literal for int() with base 10: 'a'"


async def patching(key: Key, view: View, writer: Writer) -> Outcome:
    """Patch the status of a node."""
    await writer.patch(NODE, key, {"metadata": {}})
    return Done()


async def test_each_sync_and_each_write_is_a_line_at_debug(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for each sync has outcome, writes and causes, one for each write its status (F-71)."""
    rig.queue.add(A, CAUSE)
    rig.queue.add(A, Cause(reason="timer", received=0.0))
    with caplog.at_level(logging.DEBUG):
        await rig.run(patching, seconds=1)
    (sync,), (write,) = logged(caplog, "sync ended"), logged(caplog, "write sent")
    assert sync.pop("seconds") >= 0
    assert sync == {
        "controller": "ttl",
        "key": "a",
        "outcome": "done",
        "writes": 1,
        "because": "updated nodes a, timer",
    }
    assert write.pop("seconds") >= 0
    assert write == {
        "controller": "ttl",
        "verb": "patch",
        "kind": "nodes",
        "object": "a",
        "status": 200,
    }


async def test_many_causes_are_cut_short(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A burst of changes makes a short line: four causes and a count (F-71)."""
    for number in range(30):
        rig.queue.add(A, Cause(reason="updated", received=0.0, kind="nodes", object=f"n{number}"))
    with caplog.at_level(logging.DEBUG):
        await rig.run(patching, seconds=1)
    (line,) = logged(caplog, "sync ended")
    names = "updated nodes n0, updated nodes n1, updated nodes n2, updated nodes n3"
    assert line["because"] == f"{names} and 26 more"


async def logging_sync(key: Key, view: View, writer: Writer) -> Outcome:
    """Log a line as plugins do, here and in a task of its own."""
    plugin_log.info("counted", extra={"kv": {"nodes": 3}})
    await asyncio.create_task(log_in_a_task())
    return Done()


async def log_in_a_task() -> None:
    """Log from a task that the sync has started."""
    plugin_log.info("from a task")


async def test_lines_of_a_plugin_name_its_controller(rig: Rig, lines: io.StringIO) -> None:
    """What a plugin logs in a sync has the controller and the logger, in both forms (F-71)."""
    forms: tuple[Literal["text", "json"], ...] = ("text", "json")
    for form in forms:
        start_logging(form=form, stream=lines)
        await rig.sync_a(logging_sync, seconds=1)
    text, in_task, one, other = lines.getvalue().splitlines()
    assert text.endswith("counted  controller=ttl nodes=3 logger=kcm_host_mine.plugin")
    assert in_task.endswith("from a task  controller=ttl logger=kcm_host_mine.plugin")
    loaded = [json.loads(line) for line in (one, other)]
    assert [line["controller"] for line in loaded] == ["ttl", "ttl"]
    assert loaded[0]["logger"] == "kcm_host_mine.plugin"


async def test_a_hot_key_is_one_warning(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A sync that wakes itself is told once, with key and causes, and slowed down (F-62)."""

    async def busy(key: Key, view: View, writer: Writer) -> Outcome:
        rig.queue.add(key, CAUSE)
        return Done()

    records = await rig.sync_a(busy, seconds=30)
    assert len(records) < 600
    (line,) = logged(caplog, "key synced too often")
    remedy = line.pop("remedy")
    assert "writes something new each time" in remedy
    assert line == {
        "controller": "ttl",
        "key": "a",
        "syncs": "more than 250 in 10 s",
        "because": "updated nodes a",
    }
