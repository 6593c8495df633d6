"""Whether one watch can be followed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

import msgspec

from kcm_host.api import AnyWatch, Watch
from kcm_host.loading.findings import Finding, function_findings, kind_findings, what


def watch_findings(watch: object) -> Iterator[Finding]:
    """Give what keeps a watch from being followed; each finding assumes that none came before."""
    if not isinstance(watch, Watch):
        yield f"it is {what(watch)}, no Watch", "return Watch(kind=..., model=..., keys=...)"
        return
    yield from kind_findings(watch.kind)
    yield from _model_findings(watch.model)
    yield from function_findings("keys", watch.keys, "change", "view")
    if watch.synced is not None:
        yield from function_findings("synced", watch.synced, "view")
    if watch.resync is not None:
        yield from function_findings("resync", watch.resync, "key")
    yield from _index_findings(watch.indexes)
    yield from _scope_findings(watch)
    yield from _flag_findings(watch)
    if not isinstance(watch.rest, timedelta) or watch.rest < timedelta(0):
        yield f"rest is {watch.rest!r}", "give a timedelta that is not negative"


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


def _index_findings(indexes: object) -> Iterator[Finding]:
    if not isinstance(indexes, Mapping):
        yield f"indexes is {what(indexes)}, no mapping", "give a dict of index name to function"
        return
    for name, function in indexes.items():
        yield from function_findings(f"index {name!r}", function, "key", "object")


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


def _flag_findings(watch: AnyWatch) -> Iterator[Finding]:
    for name in ("every_event", "awaited", "whole"):
        value = getattr(watch, name)
        if not isinstance(value, bool):
            yield f"{name} is {value!r}", "give True or False"
