"""What a new list tells after changes nobody saw."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from host.informer.reflector.running_reflector import (
    STREAMING,
    ConfigMaps,
    RunningReflector,
    StartReflector,
    status,
    until,
)

from kcm_host_testing.faults import Answer, Cut
from kcm_host_testing.proxy import FaultProxy

Unseen = Callable[[RunningReflector], AbstractAsyncContextManager[None]]


@pytest.fixture(params=["streaming list", "pages"])
def unseen(fault_proxy: FaultProxy, request: pytest.FixtureRequest) -> Unseen:
    """Changes made inside this reach the running by a new list alone."""
    if request.param == "pages":
        fault_proxy.add(Answer(422, status(422, "Invalid")), query=STREAMING)

    @asynccontextmanager
    async def away(running: RunningReflector) -> AsyncIterator[None]:
        lists = running.reflector.lists
        rule = fault_proxy.add(Answer(500, status(500, "InternalError")), path="configmaps")
        fault_proxy.add(Cut(), query={"watch": "true"}, also_open=True, times=1)
        await until(lambda: running.reflector.phase == "failed")
        yield
        rule.remove()
        await until(lambda: running.reflector.lists == lists + 1)

    return away


async def test_a_new_list_tells_what_has_changed(
    start_reflector: StartReflector, config_maps: ConfigMaps, unseen: Unseen
) -> None:
    """
    The list's differences are told, deletes with the last known state first (IQ-50, IQ-T8).

    Readers see the last complete set until the new one is complete; an object that was deleted and
    created again under its name is one update (IQ-52, IQ-T9).
    """
    await config_maps.create("a", "anew", "b", "c")
    running = await start_reflector()
    await running.synced()
    before = [key.name for key, _ in running.store.items()]
    count = len(running.seen)
    async with unseen(running):
        await config_maps.create("aa")
        await config_maps.change("c", "1")
        for name in ("anew", "b"):
            await config_maps.delete(name)
        await config_maps.create("anew")
        assert [key.name for key, _ in running.store.items()] == before
    assert running.seen[count] == "-b"
    assert sorted(running.seen[count + 1 :]) == ["+aa", "~anew", "~c"]
    gone = running.handler.changes[count]
    assert gone.old is not None
    assert gone.old.data == {"n": "0"}
    assert not any(change.initial for change in running.handler.changes[count:])
    assert running.handler.times_synced == 1
