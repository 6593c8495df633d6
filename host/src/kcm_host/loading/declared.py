"""Whether what a plugin declares at its start, watches and writes, can be followed."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from kcm_host.api import AnyWatch, Kind, Permission, Watch
from kcm_host.loading.quarantine import Fault

#: What is wrong, and what to do.
Finding = tuple[str, str]


def checked_watches(result: object) -> tuple[AnyWatch, ...]:
    """Give what `kcm_watches` returned, once every watch is known to be usable; or `Fault`."""
    watches = _sequence(
        result, hook="kcm_watches", remedy="return a list with a Watch for each kind to follow"
    )
    if not watches:
        raise Fault(
            "'kcm_watches' returned no watch",
            "return at least one Watch: without one, no key is ever queued",
        )
    for number, watch in enumerate(watches, 1):
        for fact, remedy in _watch_findings(watch):
            raise Fault(f"watch {number} of 'kcm_watches'{_named(watch)}: {fact}", remedy)
    _refuse_twins(watches)
    return watches


def checked_writes(result: object) -> frozenset[Permission]:
    """Give what `kcm_writes` returned as a set, nothing when it returned None; or `Fault`."""
    if result is None:
        return frozenset()
    remedy = "return a list of Permission(kind, verb)"
    writes = _sequence(result, hook="kcm_writes", remedy=remedy)
    for number, write in enumerate(writes, 1):
        if not isinstance(write, Permission):
            raise Fault(f"write {number} of 'kcm_writes' is {write!r}, no Permission", remedy)
        for fact, advice in _kind_findings(write.kind):
            raise Fault(f"write {number} of 'kcm_writes': {fact}", advice)
        if not write.verb or not isinstance(write.verb, str):
            raise Fault(
                f"write {number} of 'kcm_writes' has the verb {write.verb!r}",
                "use a verb of RBAC: create, update, patch, delete",
            )
    return frozenset(writes)


def _sequence(result: object, *, hook: str, remedy: str) -> tuple[Any, ...]:
    if isinstance(result, str) or not isinstance(result, Sequence):
        raise Fault(f"{hook!r} returned {_what(result)}, not a list", remedy)
    return tuple(result)


def _what(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _named(watch: object) -> str:
    kind = getattr(watch, "kind", None)
    return f" ({kind})" if isinstance(kind, Kind) else ""


def _watch_findings(watch: object) -> Iterator[Finding]:
    if not isinstance(watch, Watch):
        yield f"it is {_what(watch)}, no Watch", "return Watch(kind=..., model=..., keys=...)"
        return
    yield from _kind_findings(watch.kind)
    yield from _model_findings(watch.model)
    yield from _function_findings("keys", watch.keys, "change, view")
    yield from _index_findings(watch.indexes)
    yield from _scope_findings(watch)
    if not isinstance(watch.rest, timedelta) or watch.rest < timedelta(0):
        yield f"rest is {watch.rest!r}", "give a timedelta that is not negative"


def _kind_findings(kind: object) -> Iterator[Finding]:
    remedy = "give a Kind(group, version, name, resource) of kcm_host.api"
    if not isinstance(kind, Kind):
        yield f"kind is {kind!r}, no Kind", remedy
    elif not (kind.version and kind.name and kind.resource):
        yield f"kind is {kind!r}: version, name and resource must not be empty", remedy


def _model_findings(model: object) -> Iterator[Finding]:
    if not isinstance(model, type) or not issubclass(model, msgspec.Struct):
        yield (
            f"model is {model!r}, no subclass of msgspec.Struct",
            "declare the fields to read in a class derived from msgspec.Struct, and give the class",
        )
        return
    config = model.__struct_config__
    if config.array_like or config.tag is not None or config.forbid_unknown_fields:
        yield (
            f"no object would ever fit model {model.__name__!r}",
            "leave out array_like, tag and forbid_unknown_fields: a model picks some fields",
        )
    try:
        msgspec.json.Decoder(model)
    except (TypeError, ValueError, NameError) as error:
        yield (
            f"model {model.__name__!r} cannot be decoded: {' '.join(str(error).split())}",
            "use field types that msgspec supports and that can be looked up in its module",
        )


def _function_findings(name: str, function: object, arguments: str) -> Iterator[Finding]:
    if not callable(function):
        yield f"{name} is {function!r}, no function", f"give a function of ({arguments})"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        yield f"{name} is async", "write it as plain 'def': it is called in order, without awaiting"
    elif not _takes_two(function):
        yield f"{name} cannot be called with ({arguments})", "give it exactly these two arguments"


def _takes_two(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # functions written in C may have no signature
        return True
    return True


def _index_findings(indexes: object) -> Iterator[Finding]:
    if not isinstance(indexes, Mapping):
        yield f"indexes is {_what(indexes)}, no mapping", "give a dict of index name to function"
        return
    for name, function in indexes.items():
        yield from _function_findings(f"index {name!r}", function, "key, object")


def _scope_findings(watch: AnyWatch) -> Iterator[Finding]:
    for name in ("namespace", "label_selector", "field_selector"):
        value = getattr(watch, name)
        if not isinstance(value, str):
            yield f"{name} is {value!r}", "give a string; empty means all"
    if watch.namespace and not watch.kind.namespaced:
        yield (
            f"it is limited to namespace {watch.namespace!r}, but {watch.kind} have none",
            "leave the namespace out",
        )


def _refuse_twins(watches: Sequence[AnyWatch]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(watches, 1):
        first = seen.setdefault((one.kind, one.model), number)
        if first != number:
            raise Fault(
                f"watches {first} and {number} of 'kcm_watches' both follow {one.kind} as "
                f"{one.model.__name__!r}, so a view could not tell them apart",
                "make it one Watch, or give each a model class of its own",
            )
