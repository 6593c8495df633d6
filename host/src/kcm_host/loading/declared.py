"""Whether what the hooks of a controller return can be used."""

from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Any

from kcm_host.api import AnyWatch, Kind, Metric, Permission, Timer
from kcm_host.loading.findings import Finding, function_findings, kind_findings, what
from kcm_host.loading.quarantine import Fault
from kcm_host.loading.watch_findings import watch_findings


def checked_watches(result: object) -> tuple[AnyWatch, ...]:
    """Give what `kcm_watches` returned, once every watch is known to be usable; or `Fault`."""
    return _watches(result, hook="kcm_watches")


def checked_more_watches(result: object, *, besides: Collection[AnyWatch]) -> tuple[AnyWatch, ...]:
    """
    Give what `kcm_more_watches` returned, nothing when it returned None; or `Fault`.

    `besides` are the watches that the controller follows all the time.
    """
    if result is None:
        return ()
    watches = _watches(result, hook="kcm_more_watches")
    always = {(one.kind, one.model) for one in besides}
    for number, watch in enumerate(watches, 1):
        if (watch.kind, watch.model) in always:
            raise Fault(
                f"watch {number} of 'kcm_more_watches' follows {watch.kind} as "
                f"{watch.model.__name__!r}, which 'kcm_watches' follows already",
                "leave it out, or give it a model class of its own",
            )
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
        for fact, advice in kind_findings(write.kind):
            raise Fault(f"write {number} of 'kcm_writes': {fact}", advice)
        if not write.verb or not isinstance(write.verb, str):
            raise Fault(
                f"write {number} of 'kcm_writes' has the verb {write.verb!r}",
                "use a verb of RBAC: get, create, update, patch, delete",
            )
    return frozenset(writes)


def checked_timers(result: object) -> tuple[Timer, ...]:
    """Give what `kcm_timers` returned, nothing when it returned None; or `Fault`."""
    if result is None:
        return ()
    timers = _sequence(result, hook="kcm_timers", remedy="return a list of Timer(every=, keys=)")
    for number, timer in enumerate(timers, 1):
        for fact, remedy in _timer_findings(timer):
            raise Fault(f"timer {number} of 'kcm_timers': {fact}", remedy)
    return timers


def checked_metrics(result: object) -> tuple[Metric, ...]:
    """Give what `kcm_metrics` returned, nothing when it returned None; or `Fault`."""
    if result is None:
        return ()
    remedy = "return a list of Metric(name, help, type, series)"
    metrics = _sequence(result, hook="kcm_metrics", remedy=remedy)
    for number, metric in enumerate(metrics, 1):
        if not isinstance(metric, Metric):
            raise Fault(f"metric {number} of 'kcm_metrics' is {what(metric)}, no Metric", remedy)
    return metrics


def checked_workers(result: object) -> int | None:
    """Give what `kcm_workers` returned; or `Fault`."""
    if result is None:
        return None
    if isinstance(result, bool) or not isinstance(result, int) or result < 1:
        raise Fault(
            f"'kcm_workers' returned {result!r}, no number of workers",
            "return a whole number of at least 1, or leave 'kcm_workers' out",
        )
    return result


def _sequence(result: object, *, hook: str, remedy: str) -> tuple[Any, ...]:
    if isinstance(result, str) or not isinstance(result, Sequence):
        raise Fault(f"{hook!r} returned {what(result)}, not a list", remedy)
    return tuple(result)


def _watches(result: object, *, hook: str) -> tuple[AnyWatch, ...]:
    remedy = "return a list with a Watch for each kind to follow"
    watches = _sequence(result, hook=hook, remedy=remedy)
    for number, watch in enumerate(watches, 1):
        for fact, advice in watch_findings(watch):
            raise Fault(f"watch {number} of {hook!r}{_named(watch)}: {fact}", advice)
    _refuse_twins(watches, hook)
    return watches


def _named(watch: object) -> str:
    kind = getattr(watch, "kind", None)
    return f" ({kind})" if isinstance(kind, Kind) else ""


def _timer_findings(timer: object) -> Iterator[Finding]:
    if not isinstance(timer, Timer):
        yield f"it is {what(timer)}, no Timer", "return Timer(every=..., keys=...)"
        return
    if not isinstance(timer.every, timedelta) or timer.every <= timedelta(0):
        yield f"every is {timer.every!r}", "give a timedelta above zero"
    yield from function_findings("keys", timer.keys, "view")
    if not isinstance(timer.resync, bool):
        yield f"resync is {timer.resync!r}", "give True or False"


def _refuse_twins(watches: Sequence[AnyWatch], hook: str) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(watches, 1):
        first = seen.setdefault((one.kind, one.model), number)
        if first != number:
            raise Fault(
                f"watches {first} and {number} of {hook!r} both follow {one.kind} as "
                f"{one.model.__name__!r}, so a view could not tell them apart",
                "make it one Watch, or give each a model class of its own",
            )
