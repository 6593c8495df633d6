"""The faults of a soak: now and then one of those that a real network and server have."""

import random
from collections.abc import Callable, Mapping

from kcm_host_testing.faults import Answer, Cut, Delay, Point, Stall
from kcm_host_testing.proxy import FaultProxy, Rule

WATCH = {"watch": "true"}
WRITES = ("POST", "PUT", "PATCH", "DELETE")
JSON = {"Content-Type": "application/json"}
EXPIRED = Answer(
    200,
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"reason":"Expired","code":410,"message":"too old"}}\n',
    JSON,
)
UNDECODABLE = Answer(200, b'{"kind":"Status","metadata":\xff', JSON)


class Trouble:
    """Faults on one proxy; each call of `next` makes one and ends those that stall."""

    def __init__(self, proxy: FaultProxy, chance: random.Random) -> None:
        self._proxy = proxy
        self._chance = chance
        self._stalled: list[Rule] = []
        self._faults: Mapping[str, Callable[[], None]] = {
            "watches cut": self._cut_watches,
            "versions expired": self._expire,
            "writes answered with 500": lambda: self._answer_writes(Answer(500, b"broken")),
            "writes answered with 429": lambda: self._answer_writes(
                Answer(429, b"busy", {"Retry-After": "1"})
            ),
            "writes answered with 409": lambda: self._answer_writes(Answer(409, b"conflict")),
            "answers cut": self._cut_answers,
            "answers unreadable": lambda: self._answer_writes(UNDECODABLE),
            "requests slow": self._slow,
            "watches stalled": self._stall,
        }

    def next(self) -> str:
        """Make one fault and return what it is."""
        self.end()
        name = self._chance.choice(list(self._faults))
        self._faults[name]()
        return name

    def end(self) -> None:
        """End what is stalled."""
        while self._stalled:
            self._stalled.pop().remove()

    def _cut_watches(self) -> None:
        times = self._chance.randrange(1, 20)
        self._proxy.add(Cut(), query=WATCH, also_open=True, times=times)

    def _expire(self) -> None:
        self._proxy.add(EXPIRED, query=WATCH, times=2)
        self._proxy.add(Cut(), query=WATCH, also_open=True, times=2)

    def _answer_writes(self, answer: Answer) -> None:
        self._proxy.add(answer, method=self._chance.choice(WRITES), times=3)

    def _cut_answers(self) -> None:
        self._proxy.add(Cut(Point.ANSWER), method=self._chance.choice(WRITES), times=3)

    def _slow(self) -> None:
        self._proxy.add(Delay(0.5), times=20)

    def _stall(self) -> None:
        self._stalled.append(self._proxy.add(Stall(), query=WATCH, also_open=True, times=2))
