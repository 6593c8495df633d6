"""The queue against a plain model: which key is next, with which priority, for which adds."""

import asyncio
from typing import Any

from host.workqueue.queue_steps import settle, why
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time

from kcm_host.api.kinds import Key
from kcm_host.api.watch import Priority
from kcm_host.workqueue.queue import STARVATION_LIMIT, Item, WorkQueue

KEYS = [Key(name) for name in "abcdefghijkl"]

_key = st.sampled_from(KEYS)
_lane = st.sampled_from(list(Priority))
#: Exact as binary fractions, so that sums of them are exact times.
_seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0])
_number = st.integers(0, 9)
_STEP = st.one_of(
    st.tuples(st.just("add"), _key, _lane, _seconds),
    st.tuples(st.just("get")),
    st.tuples(st.just("get")),
    st.tuples(st.just("cancel"), _number),
    st.tuples(st.just("done"), _number),
    st.tuples(st.just("retry"), _number),
    st.tuples(st.just("later"), _number, _seconds),
)
#: What is done at one moment, and the time until the next one.
TURNS = st.lists(
    st.tuples(st.lists(_STEP, min_size=1, max_size=4), _seconds), min_size=20, max_size=40
)


class Model:
    """Keys in plain lists; delayed adds, searched at each step."""

    def __init__(self) -> None:
        #: Key -> its priority, and how many adds it stands for.
        self.dirty: dict[Key, tuple[Priority, int]] = {}
        self.order: list[Key] = []
        self.taken: dict[Key, Priority] = {}
        #: Key -> when it is due, number of the add that set that, priority, number of adds.
        self.waiting: dict[Key, tuple[float, int, Priority, int]] = {}
        self.passed_over = dict.fromkeys(Priority, 0)
        self.getters = 0
        self.handed: list[tuple[Key, Priority, int]] = []
        self._number = 0

    def add(self, key: Key, lane: Priority, due: float, now: float) -> None:
        """Add at once, or merge with what waits until the earlier time (IQ-85)."""
        if due <= now:
            self._mark(key, lane, 1)
            return
        self._number += 1
        known = self.waiting.get(key)
        if known is None:
            self.waiting[key] = (due, self._number, lane, 1)
        else:
            first = known[:2] if known[0] <= due else (due, self._number)
            self.waiting[key] = (*first, min(known[2], lane), known[3] + 1)

    def advance(self, now: float) -> None:
        """Queue everything that is due, in the order of its times (IQ-88)."""
        for due in sorted({due for due, *_ in self.waiting.values() if due <= now}):
            at_once = [key for key, (when, *_) in self.waiting.items() if when == due]
            for key in sorted(at_once, key=lambda key: self.waiting[key][1]):
                self._mark(key, *self.waiting.pop(key)[2:])
            self.hand_out()

    def hand_out(self) -> None:
        """Return each getter the first key of the priority that is next (IQ-71)."""
        while self.getters and (free := [key for key in self.order if key not in self.taken]):
            self.getters -= 1
            lanes = sorted({self.dirty[key][0] for key in free})
            patient = [lane for lane in lanes if self.passed_over[lane] >= STARVATION_LIMIT]
            lane = (patient or lanes)[0]
            self.passed_over[lane] = 0
            for other in lanes:
                if other > lane:
                    self.passed_over[other] += 1
            key = next(key for key in free if self.dirty[key][0] == lane)
            self.order.remove(key)
            self.taken[key] = lane
            self.handed.append((key, *self.dirty.pop(key)))

    def done(self, key: Key) -> None:
        """Free the key; changed meanwhile, it goes to the end (IQ-72)."""
        del self.taken[key]
        if key in self.dirty:
            self.order.append(key)

    def _mark(self, key: Key, lane: Priority, adds: int) -> None:
        known, before = self.dirty.get(key, (None, 0))
        self.dirty[key] = (lane if known is None else min(known, lane), before + adds)
        if key in self.taken or (known is not None and known <= lane):
            return
        if key in self.order:
            self.order.remove(key)
        self.order.append(key)


class Trial:
    """The same steps on the queue and on the model."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue, self.model = WorkQueue(self.loop), Model()
        self.getters: list[asyncio.Task[Item]] = []
        self.items: list[Item] = []
        self.handed: list[tuple[Key, Priority, int]] = []

    async def turn(self, steps: list[tuple[Any, ...]], seconds: float) -> None:
        """Do the steps at one moment, let everybody run, and compare; then let time pass."""
        for name, *words in steps:
            getattr(self, name)(*words)
        await settle()
        self.model.hand_out()
        self.compare()
        await asyncio.sleep(seconds)
        await settle()
        self.model.advance(self.loop.time())
        self.compare()

    def add(self, key: Key, lane: Priority, after: float) -> None:
        self.queue.add(key, why(), priority=lane, after=after)
        self.model.add(key, lane, self.loop.time() + after, self.loop.time())

    def get(self) -> None:
        task = asyncio.create_task(self.queue.get())
        task.add_done_callback(self._note)
        self.getters.append(task)
        self.model.getters += 1

    def cancel(self, number: int) -> None:
        if self.getters:
            self.getters.pop(number % len(self.getters)).cancel()
            self.model.getters -= 1

    def done(self, number: int) -> None:
        if self.items:
            item = self.items.pop(number % len(self.items))
            self.queue.done(item.key)
            self.model.done(item.key)

    def retry(self, number: int) -> None:
        self._again(number, None)

    def later(self, number: int, after: float) -> None:
        self._again(number, after)

    def _again(self, number: int, after: float | None) -> None:
        """End the sync of an item as the worker does, with its priority."""
        if not self.items:
            return
        item, now = self.items[number % len(self.items)], self.loop.time()
        if after is None:
            after = self.queue.add_rate_limited(item.key, why(), priority=item.priority)
        else:
            self.queue.add_after(item.key, why(), after=after, priority=item.priority)
        self.model.add(item.key, item.priority, now + after, now)
        self.done(number)

    def compare(self) -> None:
        """Check that both did the same, and that nobody waits before a key."""
        assert self.handed == self.model.handed
        assert len(self.queue) == len(self.model.order)
        assert not (self.getters and len(self.queue)), "a key is there and a worker waits"
        state = self.queue.state()
        assert state.depth == len(self.model.dirty)
        assert (state.waiting, state.processing) == (len(self.model.waiting), len(self.items))

    def _note(self, task: asyncio.Task[Item]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.getters.remove(task)
            item = task.result()
            self.items.append(item)
            self.handed.append((item.key, item.priority, item.merged))


async def _play(turns: list[tuple[list[tuple[Any, ...]], float]]) -> None:
    trial = Trial()
    for steps, seconds in turns:
        await trial.turn(steps, seconds)
    while trial.model.order or trial.model.waiting or trial.items:
        await trial.turn([("get",), *[("done", 0)] * len(trial.items)], 0.5)
    trial.queue.shut_down()
    await settle()
    assert all(getter.done() for getter in trial.getters)


@given(TURNS)
def test_the_queue_does_what_the_model_does(
    turns: list[tuple[list[tuple[Any, ...]], float]],
) -> None:
    """
    Keys, priorities and adds are those of the model (F-17, IQ-70 to IQ-74, 85).

    For any sequence of steps, several at one moment, also when waiting workers are cancelled.
    """
    run_in_virtual_time(_play(turns))
