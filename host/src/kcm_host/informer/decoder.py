"""
Decoding of watch events and list pages into the fields that models declare.

What the decoder refuses is scanned without recursion, so that only the one object is affected.
"""

import re
import sys
from typing import Any, Generic, TypeVar

import msgspec

from kcm_host.api.kinds import Key
from kcm_host.client.errors import DECODE_ERRORS

M = TypeVar("M")
#: The keys that lead to a value in JSON, from outside.
Path = tuple[str, ...]


class MetaAnnotations(msgspec.Struct, gc=False):
    """The one annotation that the host itself reads: the end of a streaming list (IQ-12)."""

    initial_events_end: str = msgspec.field(name="k8s.io/initial-events-end", default="")


class ObjectMeta(msgspec.Struct, gc=False, rename="camel"):
    """The identity and resourceVersion of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: MetaAnnotations | None = None


class PartialObject(msgspec.Struct, gc=False):
    """The part of every object that the host reads."""

    metadata: ObjectMeta | None = None
    kind: str = ""


# Decoded before the body: type, kind and version decide what happens to a line, and the models of
# several handlers may decode its object.
class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch, decoded without the body of its object."""

    type: str
    object: PartialObject


class EventObject(msgspec.Struct, Generic[M], gc=False):
    """One line of a watch, decoded for its object alone."""

    object: M


class _RawEventObject(msgspec.Struct, gc=False):
    object: msgspec.Raw


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The resourceVersion of a list, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


# The items stay bytes, so that one that does not fit a model costs only itself.
class ListPage(msgspec.Struct):
    """One page of a list; items stay bytes until a model decodes them."""

    items: list[msgspec.Raw] | None = None
    metadata: ListMeta = ListMeta()
    kind: str = ""


_watch_event = msgspec.json.Decoder(WatchEvent).decode
_partial_object = msgspec.json.Decoder(PartialObject).decode
_list_page = msgspec.json.Decoder(ListPage).decode
_numbers = msgspec.json.Decoder(list[int]).decode
_raw_event_object = msgspec.json.Decoder(_RawEventObject).decode

_NAME = ("metadata", "name")
_NAMESPACE = ("metadata", "namespace")
_UID = ("metadata", "uid")
_RESOURCE_VERSION = ("metadata", "resourceVersion")
#: Servers send the namespace before the last of these, whether keys are sorted or not.
_SUFFICIENT = frozenset({_NAME, _UID, _RESOURCE_VERSION})
_OBJECT_PATHS = _SUFFICIENT | {_NAMESPACE}
_EVENT_PATHS = frozenset(
    {("type",), ("object", "kind"), *(("object", *path) for path in _OBJECT_PATHS)}
)
_SUFFICIENT_OF_EVENT = _EVENT_PATHS - {("object", *_NAMESPACE)}


#: How a line begins for kinds built into the API server, which writes fields in the order of Go's
#: structs. The rest of a line may be many KiB, and the models decode it anyway.
_BEGINNING = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"kind":"([A-Za-z0-9]++)",'
    rb'"apiVersion":"[a-z0-9./-]++","metadata":\{"name":"([a-z0-9.:_-]++)",'
    rb'(?:"generateName":"[a-z0-9.-]*+",)?(?:"namespace":"([a-z0-9-]++)",)?'
    rb'"uid":"([0-9A-Za-z-]++)","resourceVersion":"([0-9]++)"[,}]'
)


def decode_event(line: bytes) -> WatchEvent:
    """
    Return the type and the metadata of one line of a watch.

    An object that cannot be decoded has metadata too, if its name can be found. Raise
    `msgspec.MsgspecError` if there is no name.
    """
    if beginning := _BEGINNING.match(line):
        event_type, kind, name, namespace, uid, version = beginning.groups(b"")
        meta = ObjectMeta(
            name=name.decode(),
            namespace=namespace.decode(),
            uid=uid.decode(),
            resource_version=version.decode(),
        )
        return WatchEvent(event_type.decode(), PartialObject(meta, kind.decode()))
    try:
        return _watch_event(line)
    except DECODE_ERRORS as error:
        # What users can store must not stop a stream: a claim nested 1,200 deep ended that of the
        # whole cluster (F-1).
        found = find_strings(line, _EVENT_PATHS, _SUFFICIENT_OF_EVENT)
        meta = _meta({path[1:]: text for path, text in found.items() if len(path) > 2}, error)
        partial = PartialObject(meta, found.get(("object", "kind"), ""))
        return WatchEvent(found.get(("type",), ""), partial)


def decode_partial_object(item: bytes | msgspec.Raw) -> PartialObject:
    """Return the metadata of a list item; raise `msgspec.MsgspecError` if it has no name."""
    try:
        return _partial_object(item)
    except DECODE_ERRORS as error:
        found = find_strings(bytes(item), _OBJECT_PATHS, _SUFFICIENT)
        return PartialObject(_meta(found, error))


def decode_list_page(body: bytes) -> ListPage:
    """
    Return one page of a list; raise `msgspec.MsgspecError` if the body is none.

    An item that cannot be decoded does not affect the other items.
    """
    try:
        return _list_page(body)
    except DECODE_ERRORS as error:
        try:
            outer, inner = cut_below(body, levels=2)
            page = _list_page(outer)
            # Numbers that `cut_below` did not put there are no items either.
            numbers = _numbers(b"[" + b",".join(map(bytes, page.items or ())) + b"]")
            page.items = [msgspec.Raw(inner[number]) for number in numbers]
        except (*DECODE_ERRORS, IndexError):
            raise msgspec.DecodeError(str(error)) from error
        return page


def _meta(found: dict[Path, str], error: Exception) -> ObjectMeta:
    """Return the metadata from the strings found; raise the decoder's error without a name."""
    name = found.get(_NAME, "")
    if not name:
        raise msgspec.DecodeError(str(error)) from error
    return ObjectMeta(
        name=name,
        namespace=found.get(_NAMESPACE, ""),
        uid=found.get(_UID, ""),
        resource_version=found.get(_RESOURCE_VERSION, ""),
    )


class ModelDecoder(Generic[M]):
    """Decoder of objects into one model, from list items and from watch events."""

    def __init__(self, model: type[M]) -> None:
        self.model = model
        self.decode_object = msgspec.json.Decoder(model).decode
        self._decode_event = msgspec.json.Decoder(EventObject[model]).decode  # type: ignore[valid-type] # a type known at run time only

    def decode_event_object(self, line: bytes) -> M:
        """Return the object of one line of a watch; raise one of `DECODE_ERRORS`."""
        return self._decode_event(line).object


def raw_event_object(line: bytes) -> msgspec.Raw:
    """Return the undecoded object of one line of a watch."""
    return _raw_event_object(line).object


def key_of(meta: ObjectMeta) -> Key:
    """Return the key of an object; its namespace is interned, since namespaces repeat."""
    return Key(meta.name, sys.intern(meta.namespace))


def resource_version_of(event: WatchEvent) -> str:
    """Return the resourceVersion of an event's object; empty without one."""
    return event.object.metadata.resource_version if event.object.metadata else ""


def is_bookmark(event: WatchEvent) -> bool:
    """Return whether an event tells a resourceVersion only."""
    return event.type == "BOOKMARK"


def is_initial_events_end(event: WatchEvent) -> bool:
    """Return whether a bookmark ends the initial objects of a streaming list (IQ-12)."""
    meta = event.object.metadata
    if meta is None or meta.annotations is None:
        return False
    return meta.annotations.initial_events_end == "true"


def reads_metadata_only(model: type[Any]) -> bool:
    """Return whether a model declares no field besides `metadata`, `kind` and `apiVersion`."""
    names = {field.encode_name for field in msgspec.structs.fields(model)}
    return names <= {"metadata", "kind", "apiVersion"}


_STRING = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
#: A key, another string or a bracket. A string without an end extends to the end of the text, so
#: that no text is scanned twice.
_TOKEN = re.compile(rb"(" + _STRING + rb")([ \t\r\n]*+:)?|[\[\]{}]", re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


def find_strings(
    text: bytes, wanted: frozenset[Path], sufficient: frozenset[Path]
) -> dict[Path, str]:
    """
    Return the strings at those of the `wanted` paths that the object has.

    The depth is not limited, because nothing recurses. The scan ends when all `sufficient` paths
    are found: the rest may be large. Syntax that does not affect the strings is not checked.
    """
    deepest = max(map(len, wanted))
    found: dict[Path, str] = {}
    keys: list[str] = []
    level = 0
    for token in _TOKEN.finditer(text):
        string, colon = token.groups()
        if string is None:
            level += 1 if text[token.start()] in _OPENING else -1
        elif not 0 < level <= deepest:
            continue
        elif colon:
            # Deeper keys are cut off too: they belong to a value that has ended.
            keys[level - 1 :] = [_decode_string(string)]
        elif (path := tuple(keys[:level])) in wanted and len(path) == level:
            found[path] = _decode_string(string)
            if sufficient <= found.keys():
                break
    return found


def cut_below(text: bytes, levels: int) -> tuple[bytes, list[bytes]]:
    """
    Return `text` with each array or object below `levels` replaced by its number, and those.

    The depth is not limited, because nothing recurses. What is cut out is not checked. Raise
    `msgspec.DecodeError` when brackets are missing.
    """
    upper: list[bytes] = []
    lower: list[bytes] = []
    level = begin = end = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in _OPENING:
            if level == levels:
                begin = token.start()
                upper += (text[end:begin], b"%d" % len(lower))
            level += 1
        elif first in _CLOSING:
            level -= 1
            if level == levels:
                end = token.end()
                lower.append(text[begin:end])
    if level:
        raise msgspec.DecodeError("JSON is malformed: its brackets do not match")
    upper.append(text[end:])
    return b"".join(upper), lower


def _decode_string(string: bytes) -> str:
    """Return a JSON string as text; empty when it is malformed."""
    try:
        return msgspec.json.decode(string, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
