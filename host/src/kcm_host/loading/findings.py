"""What is wrong with parts that several declarations have: kinds, and functions of the plugin."""

import inspect
from collections.abc import Callable, Iterator

from kcm_host.api import Kind

#: What is wrong, and what to do.
Finding = tuple[str, str]


def what(value: object) -> str:
    """Give the type of a wrong value in words."""
    return "None" if value is None else f"a {type(value).__name__}"


def kind_findings(kind: object) -> Iterator[Finding]:
    """Give what keeps a kind from being a path of requests."""
    remedy = "give a Kind(group, version, name, resource) of kcm_host.api"
    if not isinstance(kind, Kind):
        yield f"kind is {kind!r}, no Kind", remedy
    elif not (kind.version and kind.name and kind.resource):
        yield f"kind is {kind!r}: version, name and resource must not be empty", remedy


def function_findings(name: str, function: object, *arguments: str) -> Iterator[Finding]:
    """Give what keeps a function from being called, without awaiting, with these arguments."""
    listed = f"({', '.join(arguments)})"
    number = "two arguments" if len(arguments) > 1 else "one argument"
    these = f"exactly {'these' if len(arguments) > 1 else 'this'} {number}"
    if not callable(function):
        yield f"{name} is {function!r}, no function", f"give a function of {listed}"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"{name} is async", "write it as plain 'def': it is called in order, without awaiting"
    elif not _takes(function, len(arguments)):
        yield f"{name} cannot be called with {listed}", f"give it {these}"


def _takes(function: Callable[..., object], number: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * number)
    except TypeError:
        return False
    except ValueError:  # functions written in C may have no signature
        return True
    return True
