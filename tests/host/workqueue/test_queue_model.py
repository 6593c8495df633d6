"""The queue against a plain model: which key is next, with which priority, for which adds."""

import asyncio
from typing import Any

from host.workqueue.queue_steps import why
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import VirtualTimeLoop

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import STARVATION_LIMIT, Item, WorkQueue

KEYS = [Key(name) for name in "abcdefghijkl"]

_key = st.sampled_from(KEYS)
_lane = st.sampled_from(list(Priority))
_seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _key, _lane, _seconds),
        st.tuples(st.just("take")),
        st.tuples(st.just("done"), st.integers(0, 9)),
        st.tuples(st.just("retry"), st.integers(0, 9)),
        st.tuples(st.just("later"), st.integers(0, 9), _seconds),
        st.tuples(st.just("pass"), _seconds),
    ),
    max_size=60,
)


class Model:
    """Keys in plain lists; delayed adds, searched at each step."""

    def __init__(self) -> None:
        self.dirty: dict[Key, Priority] = {}
        self.order: list[Key] = []
        self.taken: dict[Key, Priority] = {}
        self.waiting: dict[Key, tuple[float, int, Priority]] = {}
        self.passed_over = dict.fromkeys(Priority, 0)
        self.failures: dict[Key, int] = {}
        self._number = 0

    def add(self, key: Key, lane: Priority, due: float, now: float) -> None:
        """One add: at once, or merged with what waits until the earlier time."""
        if due <= now:
            self._mark(key, lane)
            return
        self._number += 1
        known = self.waiting.get(key)
        if known is None:
            self.waiting[key] = (due, self._number, lane)
        else:
            first = known[:2] if known[0] <= due else (due, self._number)
            self.waiting[key] = (*first, min(known[2], lane))

    def advance(self, now: float) -> None:
        """Everything that is due, in the order of its times."""
        for key in sorted(self.waiting, key=lambda key: self.waiting[key][:2]):
            if self.waiting[key][0] <= now:
                self._mark(key, self.waiting.pop(key)[2])

    def take(self) -> tuple[Key, Priority] | None:
        """The first key of the priority that is next."""
        free = [key for key in self.order if key not in self.taken]
        lanes = sorted({self.dirty[key] for key in free})
        if not lanes:
            return None
        patient = [lane for lane in lanes if self.passed_over[lane] >= STARVATION_LIMIT]
        lane = (patient or lanes)[0]
        self.passed_over[lane] = 0
        for other in lanes:
            if other > lane:
                self.passed_over[other] += 1
        key = next(key for key in free if self.dirty[key] == lane)
        self.order.remove(key)
        self.taken[key] = self.dirty.pop(key)
        return key, lane

    def done(self, key: Key) -> None:
        """The key is free; changed meanwhile, it goes to the end."""
        del self.taken[key]
        if key in self.dirty:
            self.order.append(key)

    def _mark(self, key: Key, lane: Priority) -> None:
        known = self.dirty.get(key)
        self.dirty[key] = lane if known is None else min(known, lane)
        if key in self.taken or (known is not None and known <= lane):
            return
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)


async def _play(steps: list[tuple[Any, ...]]) -> None:
    loop = asyncio.get_running_loop()
    queue, model, items = WorkQueue(loop), Model(), []
    for name, *words in steps:
        # What was due while the loop was busy is queued before the next step.
        await asyncio.sleep(words[0] if name == "pass" else 0)
        model.advance(loop.time())
        if name == "add":
            key, lane, after = words
            queue.add(key, why(), priority=lane, after=after)
            model.add(key, lane, loop.time() + after, loop.time())
        elif name == "take":
            items += await _take(queue, model)
        elif name != "pass" and items:
            _finish(queue, model, name, items.pop(words[0] % len(items)), *words[1:])
    while model.order or model.waiting or items:
        while items:
            _finish(queue, model, "done", items.pop())
        items += await _take(queue, model)
        await asyncio.sleep(0.5)
        model.advance(loop.time())
    state = queue.state()
    assert (state.depth, state.waiting, state.processing) == (0, 0, 0)


async def _take(queue: WorkQueue, model: Model) -> list[Item]:
    expected = model.take()
    if expected is None:
        assert len(queue) == 0
        return []
    item = await queue.get()
    assert (item.key, item.priority) == expected
    return [item]


def _finish(queue: WorkQueue, model: Model, name: str, item: Item, after: float = 0.0) -> None:
    """End the sync of an item as the worker does, with its priority."""
    now = asyncio.get_running_loop().time()
    if name == "retry":
        seconds = queue.add_rate_limited(item.key, why(), priority=item.priority)
        model.add(item.key, model.taken[item.key], now + seconds, now)
    elif name == "later":
        queue.add_after(item.key, why(), after=after, priority=item.priority)
        model.add(item.key, model.taken[item.key], now + after, now)
    queue.done(item.key)
    model.done(item.key)


@given(STEPS)
def test_the_queue_does_what_the_model_does(steps: list[tuple[Any, ...]]) -> None:
    """Keys and priorities are those of the model, for any sequence of steps (F-17)."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_play(steps))
