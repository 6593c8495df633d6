"""From the bytes of lists and watches to the fields that somebody declared."""

import sys
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.client import decoding
from kcm_host.client.decoding import REFUSALS

M = TypeVar("M")


class MetaAnnotations(msgspec.Struct, gc=False):
    """The one annotation the host itself reads: the end of a streaming list (IQ-12)."""

    initial_events_end: str = msgspec.field(name="k8s.io/initial-events-end", default="")


class ObjectMeta(msgspec.Struct, gc=False, rename="camel"):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: MetaAnnotations | None = None


class PartialObject(msgspec.Struct, gc=False):
    """The part of every object that the host reads."""

    metadata: ObjectMeta | None = None
    kind: str = ""


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch, read without the object's body."""

    type: str
    object: PartialObject


class EventObject(msgspec.Struct, Generic[M], gc=False):
    """One line of a watch, read for the object alone."""

    object: M


class _RawEventObject(msgspec.Struct, gc=False):
    object: msgspec.Raw


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Where a list stands."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list; items stay bytes until somebody's model reads them."""

    items: list[msgspec.Raw] | None = None
    metadata: ListMeta = ListMeta()
    kind: str = ""


_frame = msgspec.json.Decoder(WatchEvent).decode
_head = msgspec.json.Decoder(PartialObject).decode
_page = msgspec.json.Decoder(Page).decode
_numbers = msgspec.json.Decoder(list[int]).decode
_raw = msgspec.json.Decoder(_RawEventObject).decode

_NAME = ("metadata", "name")
_NAMESPACE = ("metadata", "namespace")
_UID = ("metadata", "uid")
_VERSION = ("metadata", "resourceVersion")
#: Servers send the namespace before the last of these, whether keys are sorted or not.
_IDENTITY = frozenset({_NAME, _UID, _VERSION})
_OF_HEAD = _IDENTITY | {_NAMESPACE}
_OF_FRAME = frozenset({("type",), ("object", "kind"), *(("object", *path) for path in _OF_HEAD)})
_ENOUGH_OF_FRAME = _OF_FRAME - {("object", *_NAMESPACE)}


def frame(line: bytes) -> WatchEvent:
    """
    Return the type and head of one line of a watch; raise `msgspec.MsgspecError` if it has none.

    An object that cannot be decoded has a head all the same, if its name can be read.
    """
    try:
        return _frame(line)
    except REFUSALS as error:
        found = decoding.strings(line, _OF_FRAME, _ENOUGH_OF_FRAME)
        meta = _meta({path[1:]: text for path, text in found.items() if len(path) > 2}, error)
        kind = found.get(("object", "kind"), "")
        return WatchEvent(found.get(("type",), ""), PartialObject(meta, kind))


def head(item: bytes | msgspec.Raw) -> PartialObject:
    """Return the head of a list item; raise `msgspec.MsgspecError` if it has none."""
    try:
        return _head(item)
    except REFUSALS as error:
        return PartialObject(_meta(decoding.strings(bytes(item), _OF_HEAD, _IDENTITY), error))


def page(body: bytes) -> Page:
    """
    Return one page of a list; raise `msgspec.MsgspecError` if it is none.

    One item that cannot be decoded leaves the others as they are.
    """
    try:
        return _page(body)
    except REFUSALS as error:
        try:
            outer, inner = decoding.cut(body, levels=2)
            whole = _page(outer)
            # Numbers that were not put there by `cut` are no items either.
            numbers = _numbers(b"[" + b",".join(map(bytes, whole.items or ())) + b"]")
            whole.items = [msgspec.Raw(inner[number]) for number in numbers]
        except (*REFUSALS, IndexError):
            raise msgspec.DecodeError(str(error)) from error
        return whole


def _meta(found: dict[decoding.Path, str], error: Exception) -> ObjectMeta:
    """Return who an object is; raise what the decoder found wrong when it has no name."""
    name = found.get(_NAME, "")
    if not name:
        raise msgspec.DecodeError(str(error)) from error
    return ObjectMeta(name, found.get(_NAMESPACE, ""), found.get(_UID, ""), found.get(_VERSION, ""))


class ModelDecoder(Generic[M]):
    """Decode one model, bare as in lists or framed as in watches."""

    def __init__(self, model: type[M]) -> None:
        self.model = model
        self.bare = msgspec.json.Decoder(model).decode
        self._framed = msgspec.json.Decoder(EventObject[model]).decode  # type: ignore[valid-type] # a type known at run time only

    def framed(self, line: bytes) -> M:
        """Give the object of one watch line; raises one of `REFUSALS` if it misfits."""
        return self._framed(line).object


def object_of(line: bytes) -> msgspec.Raw:
    """Give the object of one line of a watch as it came."""
    return _raw(line).object


def key_of(meta: ObjectMeta) -> Key:
    """Give the key of an object; namespaces repeat, so one string serves all."""
    return Key(meta.name, sys.intern(meta.namespace))


def version_of(frame: WatchEvent) -> str:
    """Give the resourceVersion of an event's object."""
    return frame.object.metadata.resource_version if frame.object.metadata else ""


def ends_initial(frame: WatchEvent) -> bool:
    """Whether a bookmark marks the end of a streaming list's initial objects (IQ-12)."""
    meta = frame.object.metadata
    if meta is None or meta.annotations is None:
        return False
    return meta.annotations.initial_events_end == "true"


def reads_metadata_only(model: type[Any]) -> bool:
    """Whether a model declares nothing outside `metadata`, `kind` and `apiVersion`."""
    names = {field.encode_name for field in msgspec.structs.fields(model)}
    return names <= {"metadata", "kind", "apiVersion"}
