"""The fields that decide what happens to a line of a watch, read from its beginning."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_host.informer.decoder import WatchEvent, decode_event, is_initial_events_end

NAMES = st.one_of(
    st.from_regex(r"[a-z0-9]([a-z0-9.:_-]{0,8})", fullmatch=True), st.text(min_size=1, max_size=4)
)
#: What metadata may hold, so that lines have all beginnings: as the server writes and otherwise.
META = {
    "name": NAMES,
    "generateName": NAMES,
    "namespace": NAMES,
    "uid": st.from_regex(r"[0-9a-f-]{1,6}", fullmatch=True),
    "resourceVersion": st.one_of(st.from_regex(r"[0-9]{1,4}", fullmatch=True), NAMES),
    "annotations": st.dictionaries(
        st.sampled_from(["k8s.io/initial-events-end", "a"]), st.just("true")
    ),
    "labels": st.dictionaries(NAMES, NAMES, max_size=2),
}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Return a line of a watch: fields of the metadata in the order of Go's structs, or not."""
    keys = [key for key in META if key == "name" or draw(st.booleans())]
    if draw(st.booleans()):
        keys = draw(st.permutations(keys))
    parts = {
        "kind": draw(st.sampled_from(["Pod", "ResourceClaim", "Größe"])),
        "apiVersion": draw(st.sampled_from(["v1", "apps/v1", "resource.k8s.io/v1beta1"])),
        "metadata": {key: draw(META[key]) for key in keys},
        "spec": {"metadata": {"name": "inner", "uid": "0"}},
    }
    order = draw(st.one_of(st.just(list(parts)), st.permutations(list(parts))))
    event = {
        "type": draw(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])),
        "object": {key: parts[key] for key in order},
    }
    compact = draw(st.booleans())
    return json.dumps(event, separators=(",", ":") if compact else None).encode()


def read(event: WatchEvent) -> tuple[object, ...]:
    """Return what is read of an event."""
    meta = event.object.metadata
    assert meta is not None
    identity = (meta.name, meta.namespace, meta.uid, meta.resource_version)
    is_end = event.type == "BOOKMARK" and is_initial_events_end(event)
    return event.type, event.object.kind, *identity, is_end


@settings(max_examples=300)
@given(line=lines())
def test_the_beginning_says_what_the_whole_line_says(line: bytes) -> None:
    """Whatever the order and the spelling of the fields."""
    assert read(decode_event(line)) == read(msgspec.json.decode(line, type=WatchEvent))


@pytest.mark.parametrize("rest", [b',"spec":{"a":1e9999}}}', b"}}", b',"labels":[]}}', b""])
def test_what_follows_the_version_is_not_read(rest: bytes) -> None:
    """Models decode it; what they refuse affects that object alone (F-1)."""
    line = (
        b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a",'
        b'"namespace":"n","uid":"u-1","resourceVersion":"7"},"status":' + b"[" * 5000
    )
    assert read(decode_event(line + rest)) == ("ADDED", "Pod", "a", "n", "u-1", "7", False)
