"""Validation of the results of hooks, before anything uses them."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, get_args

import msgspec

from kcm_host.api import AnyWatch, ControllerInfo, Kind, Metric, Permission, Timer, Verb, Watch
from kcm_host.api.errors import Invalid
from kcm_host.api.watch import OwnerKeys, name_of

#: The most workers that `ControllerInfo` may ask for, as in the configuration.
MAX_WORKERS = 1_000
VERBS: tuple[Verb, ...] = get_args(Verb)
#: What authors write for a verb of RBAC -> the remedy.
NO_VERBS = {
    "apply": "use 'patch', which the API server checks for applies",
    "read": "use 'get', which the API server checks for Writer.read",
    "replace": "use 'update'",
    "event": "use EVENTS of kcm_host.api: '[..., *EVENTS]'",
    "*": "name each verb that the controller needs",
}
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
#: The parts of a kind, their forms, and the remedies. A request path is made of them.
KIND_PARTS = (
    (
        "group",
        re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*)?"),
        "give the part of 'apiVersion' before '/', such as 'apps'; empty for the core group",
    ),
    (
        "version",
        re.compile("[a-z](?:[-a-z0-9]*[a-z0-9])?"),
        "give the part of 'apiVersion' after '/', such as 'v1'",
    ),
    ("name", re.compile("[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?"), "give the 'kind' of its objects"),
    (
        "resource",
        re.compile(_LABEL),
        "give the plural in lower case, as in request paths: 'kubectl api-resources' lists it",
    ),
)
#: What `owner_keys` reads of an owner reference.
OWNER_FIELDS = frozenset({"api_version", "kind", "name", "controller"})
#: What is invalid, and the remedy.
ValidationError = tuple[str, str]


def type_name(value: object) -> str:
    """Return the type of an invalid value in words."""
    return "None" if value is None else f"a {type(value).__name__}"


def kind_errors(kind: object) -> Iterator[ValidationError]:
    """Yield why a kind cannot be used in a request path."""
    remedy = "give a Kind(group, version, name, resource) of kcm_host.api"
    if not isinstance(kind, Kind):
        yield f"kind is {kind!r}, no Kind", remedy
        return
    for part, pattern, advice in KIND_PARTS:
        value = getattr(kind, part)
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            yield f"the {part} of kind {kind.name!r} is {value!r}", advice
    if not isinstance(kind.namespaced, bool):
        yield f"namespaced of kind {kind.name!r} is {kind.namespaced!r}", "give True or False"


def function_errors(name: str, function: object, *arguments: str) -> Iterator[ValidationError]:
    """Yield why a function cannot be called, without awaiting, with these arguments."""
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


def watch_errors(watch: object) -> Iterator[ValidationError]:
    """Yield why a watch is invalid; each error assumes that there was none before."""
    if not isinstance(watch, Watch):
        yield f"it is {type_name(watch)}, no Watch", "return Watch(kind=..., model=..., keys=...)"
        return
    yield from kind_errors(watch.kind)
    yield from _model_errors(watch.model)
    yield from function_errors("keys", watch.keys, "change", "view")
    if isinstance(watch.keys, OwnerKeys):
        yield from kind_errors(watch.keys.kind)
        yield from _owner_errors(watch.model)
    if watch.on_synced is not None:
        yield from function_errors("on_synced", watch.on_synced, "view")
    if watch.resync is not None:
        yield from function_errors("resync", watch.resync, "key")
    yield from _index_errors(watch.indexes)
    yield from _scope_errors(watch)
    yield from _flag_errors(watch)
    if not isinstance(watch.debounce, timedelta) or watch.debounce < timedelta(0):
        yield f"debounce is {watch.debounce!r}", "give a timedelta that is not negative"


def _model_errors(model: object) -> Iterator[ValidationError]:
    if not isinstance(model, type) or not issubclass(model, msgspec.Struct):
        yield (
            f"model is {model!r}, no subclass of msgspec.Struct",
            "declare the fields to read in a class derived from msgspec.Struct, and give the class",
        )
        return
    config = model.__struct_config__
    # Each of these makes every object undecodable, which would be found only when the first one
    # arrives.
    if config.array_like or config.tag is not None or config.forbid_unknown_fields:
        yield (
            f"no object can be decoded as model {model.__name__!r}",
            "leave out array_like, tag and forbid_unknown_fields: a model picks some fields",
        )
    try:
        # Made here for the error alone: msgspec looks at the types of a model when its decoder is
        # made.
        msgspec.json.Decoder(model)
    except (TypeError, ValueError, NameError) as error:
        yield (
            f"model {model.__name__!r} cannot be decoded: {' '.join(str(error).split())}",
            "use field types that msgspec supports and that can be looked up in its module",
        )


def _owner_errors(model: type[msgspec.Struct]) -> Iterator[ValidationError]:
    remedy = (
        "declare `metadata` with `owner_references`, a list of structs with "
        f"{', '.join(sorted(OWNER_FIELDS))}"
    )
    for metadata in _structs_of(model, "metadata"):
        for reference in _structs_of(metadata, "owner_references"):
            missing = OWNER_FIELDS - {one.name for one in msgspec.structs.fields(reference)}
            if missing:
                listed = ", ".join(sorted(missing))
                yield f"keys is owner_keys(), and {reference.__name__!r} lacks {listed}", remedy
            return
    yield f"keys is owner_keys(), and model {model.__name__!r} has no owner references", remedy


def _structs_of(model: type[msgspec.Struct], name: str) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in the type of a field: that of `X`, `X | None` or `list[X]`."""
    types = [field.type for field in msgspec.structs.fields(model) if field.name == name]
    while types:
        each = types.pop()
        types += get_args(each)
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            yield each


def _index_errors(indexes: object) -> Iterator[ValidationError]:
    if not isinstance(indexes, Mapping):
        yield (
            f"indexes is {type_name(indexes)}, no mapping",
            "give a dict of index name to function",
        )
        return
    for name, function in indexes.items():
        yield from function_errors(f"index {name!r}", function, "key", "object")


def _scope_errors(watch: AnyWatch) -> Iterator[ValidationError]:
    for name in ("name", "namespace", "label_selector", "field_selector"):
        value = getattr(watch, name)
        if not isinstance(value, str):
            means = "the text of the kind" if name == "name" else "all"
            yield f"{name} is {value!r}", f"give a string; empty means {means}"
    if watch.namespace and not watch.kind.namespaced:
        yield (
            f"it is limited to namespace {watch.namespace!r}, but {watch.kind} have none",
            "leave the namespace out",
        )


def _flag_errors(watch: AnyWatch) -> Iterator[ValidationError]:
    for name in ("notify_unchanged", "required", "full_object"):
        value = getattr(watch, name)
        if not isinstance(value, bool):
            yield f"{name} is {value!r}", "give True or False"


def validate_watches(result: object) -> tuple[AnyWatch, ...]:
    """Return what `kcm_watches` returned if every watch is valid; raise `Invalid` if not."""
    return _watches(result, hook="kcm_watches")


def validate_dynamic_watches(
    result: object, *, besides: Collection[AnyWatch]
) -> tuple[AnyWatch, ...]:
    """
    Return what `kcm_dynamic_watches` returned, `()` for None; raise `Invalid` if it is invalid.

    `besides` are the watches of `kcm_watches`.
    """
    if result is None:
        return ()
    watches = _watches(result, hook="kcm_dynamic_watches")
    always = {name_of(one) for one in besides}
    for number, watch in enumerate(watches, 1):
        if name_of(watch) in always:
            raise Invalid(
                f"watch {number} of 'kcm_dynamic_watches' is called '{name_of(watch)}', "
                "as one of 'kcm_watches' is",
                "leave it out, or give one of them a name",
            )
    return watches


def validate_writes(result: object) -> frozenset[Permission]:
    """Return what `kcm_writes` returned, as a set; raise `Invalid` if it is invalid."""
    if result is None:
        return frozenset()
    remedy = "return a list of Permission(kind, verb)"
    writes = _sequence(result, hook="kcm_writes", remedy=remedy)
    for number, write in enumerate(writes, 1):
        if not isinstance(write, Permission):
            raise Invalid(f"write {number} of 'kcm_writes' is {write!r}, no Permission", remedy)
        # The first error only, here and below: later ones may follow from it.
        for fact, advice in kind_errors(write.kind):
            raise Invalid(f"write {number} of 'kcm_writes': {fact}", advice)
        if write.verb not in VERBS:
            raise Invalid(
                f"write {number} of 'kcm_writes' ({write.kind}) has the verb {write.verb!r}",
                NO_VERBS.get(str(write.verb), f"use a verb of RBAC: {', '.join(VERBS)}"),
            )
    return frozenset(writes)


def validate_timers(result: object) -> tuple[Timer, ...]:
    """Return what `kcm_timers` returned, `()` for None; raise `Invalid` if it is invalid."""
    if result is None:
        return ()
    timers = _sequence(result, hook="kcm_timers", remedy="return a list of Timer(every=, keys=)")
    for number, timer in enumerate(timers, 1):
        for fact, remedy in _timer_errors(timer):
            raise Invalid(f"timer {number} of 'kcm_timers': {fact}", remedy)
    return timers


def validate_metrics(result: object) -> tuple[Metric, ...]:
    """Return what `kcm_metrics` returned, `()` for None; raise `Invalid` if it is invalid."""
    if result is None:
        return ()
    remedy = "return a list of Metric(name, help, type, series)"
    metrics = _sequence(result, hook="kcm_metrics", remedy=remedy)
    for number, metric in enumerate(metrics, 1):
        if not isinstance(metric, Metric):
            raise Invalid(
                f"metric {number} of 'kcm_metrics' is {type_name(metric)}, no Metric", remedy
            )
    return metrics


def validate_info(result: object) -> ControllerInfo:
    """Return what `kcm_info` returned, the default for None; raise `Invalid` if invalid."""
    if result is None:
        return ControllerInfo()
    if not isinstance(result, ControllerInfo):
        raise Invalid(
            f"'kcm_info' returned {type_name(result)}", "return a ControllerInfo of kcm_host.api"
        )
    for fact, remedy in _info_errors(result):
        raise Invalid(f"'kcm_info': {fact}", remedy)
    return result


def _info_errors(info: ControllerInfo) -> Iterator[ValidationError]:
    if not isinstance(info.aliases, tuple) or not all(map(_is_name, info.aliases)):
        yield f"aliases is {info.aliases!r}", "give a tuple of names that are not empty"
    for name in ("service_account", "queue_name"):
        value = getattr(info, name)
        if not isinstance(value, str):
            yield f"{name} is {value!r}", "give a string; empty means the name of the controller"
    workers = info.workers
    if type(workers) is not int or not 1 <= workers <= MAX_WORKERS:
        yield f"workers is {workers!r}", f"give a number from 1 to {MAX_WORKERS:,}"
    timeout = info.sync_timeout
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        yield f"sync_timeout is {timeout!r}", "give a timedelta above zero"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _sequence(result: object, *, hook: str, remedy: str) -> tuple[Any, ...]:
    if isinstance(result, str) or not isinstance(result, Sequence):
        raise Invalid(f"{hook!r} returned {type_name(result)}, not a list", remedy)
    return tuple(result)


def _watches(result: object, *, hook: str) -> tuple[AnyWatch, ...]:
    remedy = "return a list with a Watch for each kind to follow"
    watches = _sequence(result, hook=hook, remedy=remedy)
    for number, watch in enumerate(watches, 1):
        for fact, advice in watch_errors(watch):
            raise Invalid(f"watch {number} of {hook!r}{_named(watch)}: {fact}", advice)
    _refuse_duplicates(watches, hook)
    return watches


def _named(watch: object) -> str:
    kind = getattr(watch, "kind", None)
    if not isinstance(kind, Kind) or not isinstance(kind.resource, str):
        return ""
    return f" ({getattr(watch, 'name', '') or kind})"


def _timer_errors(timer: object) -> Iterator[ValidationError]:
    if not isinstance(timer, Timer):
        yield f"it is {type_name(timer)}, no Timer", "return Timer(every=..., keys=...)"
        return
    if not isinstance(timer.every, timedelta) or timer.every <= timedelta(0):
        yield f"every is {timer.every!r}", "give a timedelta above zero"
    yield from function_errors("keys", timer.keys, "view")
    if not isinstance(timer.resync, bool):
        yield f"resync is {timer.resync!r}", "give True or False"


def _refuse_duplicates(watches: Sequence[AnyWatch], hook: str) -> None:
    seen: dict[str, int] = {}
    for number, one in enumerate(watches, 1):
        first = seen.setdefault(name_of(one), number)
        if first != number:
            raise Invalid(
                f"watches {first} and {number} of {hook!r} are both called '{name_of(one)}'",
                "give one of them a name, or make it one Watch",
            )
