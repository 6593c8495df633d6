"""An event loop whose clock jumps ahead whenever nothing is ready."""

import asyncio
import selectors
from typing import Any, NoReturn

#: Not zero, so that code which takes zero for "never" is found out.
BEGINNING = 1000.0


class Deadlock(AssertionError):
    """Nothing is ready and no time is scheduled: the test would wait for ever."""


class JumpingSelector(selectors.DefaultSelector):
    """Never waits: where others would, it moves the clock on to the moment waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGINNING

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, add the timeout to the clock."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        # One file is the loop's own, by which other threads wake it.
        if len(self.get_map()) > 1:
            raise AssertionError("virtual time cannot wait for sockets; use the real clock")
        if timeout is None:
            raise Deadlock(f"nothing is ready, no time is scheduled; these wait: {_waiting()}")
        self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """
    An event loop on which waiting costs nothing.

    Its clock stands still while anything is ready and jumps to the next scheduled time when
    nothing is. A deadlock raises `Deadlock`; sockets and threads are refused, because nobody can
    tell how long they take.
    """

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds on the clock of the loop."""
        return self._jumping.now

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override] # takes whatever comes
        """Refuse: the clock would jump while the thread works."""
        raise AssertionError("virtual time cannot wait for threads; use the real clock")


def _waiting() -> str:
    names = (f"{task.get_name()} ({task.get_coro()!r})" for task in asyncio.all_tasks())
    return ", ".join(sorted(names))
