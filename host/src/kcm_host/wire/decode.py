"""From the bytes of lists and watches to the fields that somebody declared."""

import sys
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.kinds import Key

M = TypeVar("M")


class HeadAnnotations(msgspec.Struct, gc=False):
    """The one annotation the host itself reads: the end of a streaming list (IQ-12)."""

    initial_events_end: str = msgspec.field(name="k8s.io/initial-events-end", default="")


class HeadMeta(msgspec.Struct, gc=False, rename="camel"):
    """Who an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: HeadAnnotations | None = None


class Head(msgspec.Struct, gc=False):
    """The part of every object that the host reads."""

    metadata: HeadMeta | None = None
    kind: str = ""


class Frame(msgspec.Struct, gc=False):
    """One line of a watch, read without the object's body."""

    type: str
    object: Head


class Framed(msgspec.Struct, Generic[M], gc=False):
    """One line of a watch, read for the object alone."""

    object: M


class _FramedRaw(msgspec.Struct, gc=False):
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


frame = msgspec.json.Decoder(Frame).decode
head = msgspec.json.Decoder(Head).decode
page = msgspec.json.Decoder(Page).decode
_raw = msgspec.json.Decoder(_FramedRaw).decode


class ModelDecoder(Generic[M]):
    """Decode one model, bare as in lists or framed as in watches."""

    def __init__(self, model: type[M]) -> None:
        self.model = model
        self.bare = msgspec.json.Decoder(model).decode
        self._framed = msgspec.json.Decoder(Framed[model]).decode  # type: ignore[valid-type] # a type known at run time only

    def framed(self, line: bytes) -> M:
        """Give the object of one watch line; raises `msgspec.ValidationError` if it misfits."""
        return self._framed(line).object


def object_of(line: bytes) -> msgspec.Raw:
    """Give the object of one line of a watch as it came."""
    return _raw(line).object


def key_of(meta: HeadMeta) -> Key:
    """Give the key of an object; namespaces repeat, so one string serves all."""
    return Key(meta.name, sys.intern(meta.namespace))


def version_of(frame: Frame) -> str:
    """Give the resourceVersion of an event's object."""
    return frame.object.metadata.resource_version if frame.object.metadata else ""


def ends_initial(frame: Frame) -> bool:
    """Whether a bookmark marks the end of a streaming list's initial objects (IQ-12)."""
    meta = frame.object.metadata
    if meta is None or meta.annotations is None:
        return False
    return meta.annotations.initial_events_end == "true"


def reads_metadata_only(model: type[Any]) -> bool:
    """Whether a model declares nothing outside `metadata`, `kind` and `apiVersion`."""
    names = {field.encode_name for field in msgspec.structs.fields(model)}
    return names <= {"metadata", "kind", "apiVersion"}
