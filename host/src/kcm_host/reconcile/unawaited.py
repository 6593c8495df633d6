"""Calls of a writer that a plugin forgot to await."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kcm_host.api.errors import HostError

#: The name and the coroutine of each call.
Calls = list[tuple[str, Coroutine[Any, Any, Any]]]


class RecordsCalls(Protocol):
    """An object that keeps the coroutines of its methods."""

    calls: Calls


W = TypeVar("W", bound=RecordsCalls)
P = ParamSpec("P")
R = TypeVar("R")


def recorded(
    method: Callable[Concatenate[W, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[W, P], Coroutine[Any, Any, R]]:
    """Return an async method whose coroutines are kept in `calls`, so that none ends unseen."""

    @wraps(method)
    def call(self: W, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        coroutine = method(self, *args, **kwargs)
        self.calls.append((method.__name__, coroutine))
        return coroutine

    return call


def close_unawaited(calls: Calls) -> list[str]:
    """
    Close the coroutines that nothing has started, and return the names of their methods.

    Python has no warning for a closed one. That of a task is left to the task.
    """
    created = [one for one in calls if inspect.getcoroutinestate(one[1]) == inspect.CORO_CREATED]
    if not created:
        return []
    in_tasks = {task.get_coro() for task in asyncio.all_tasks()}
    names = []
    for name, coroutine in created:
        if coroutine not in in_tasks:
            coroutine.close()
            names.append(name)
    return names


def check_awaited(calls: Calls) -> None:
    """Raise `HostError` if a call was never awaited: nothing was sent for it."""
    for name in close_unawaited(calls):
        raise HostError(
            f"writer.{name}(...) was not awaited, so nothing was sent; "
            f"write 'await writer.{name}(...)'"
        )
