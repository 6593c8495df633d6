"""What is read of JSON that the decoder refuses."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.informer import decoder

DEEP = b'{"a":' * 20_000 + b"[1]" + b"}" * 20_000
HALF_A_PAIR = rb'"\ud800"'

texts = st.text('ab"\\[]{}:,\n\u20ac', max_size=4)
values = st.recursive(
    st.sampled_from([None, True, 0, -1.5]) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)


def _event(value: bytes) -> bytes:
    meta = b'{"uid":"u","resourceVersion":"7","name":"a","namespace":"team","managedFields":%b}'
    return b'{"object":{"value":%b,"kind":"Pod","metadata":%b},"type":"ADDED"}' % (
        value,
        meta % value,
    )


def _item(name: bytes, value: bytes = b"1") -> bytes:
    return b'{"value":%b,"metadata":{"name":"%b","uid":"u","resourceVersion":"7"}}' % (value, name)


@pytest.mark.parametrize("value", [DEEP, HALF_A_PAIR], ids=["deep", "half a pair"])
def test_an_event_has_its_head_whatever_is_inside(value: bytes) -> None:
    """Type, kind and identity are read past values that the decoder refuses (F-1)."""
    frame = decoder.decode_event(_event(value))
    assert (frame.type, frame.object.kind) == ("ADDED", "Pod")
    assert frame.object.metadata == decoder.ObjectMeta("a", "team", "u", "7")


@pytest.mark.parametrize("value", [DEEP, HALF_A_PAIR], ids=["deep", "half a pair"])
def test_a_page_is_split_past_its_bad_items(value: bytes) -> None:
    """The other items are there as they came, and the bad one with its identity (F-1)."""
    items = [_item(b"a"), _item(b"b", value), _item(b"c")]
    meta = b'"metadata":{"resourceVersion":"9","continue":"more"}'
    page = decoder.decode_list_page(
        b'{"items":[%b],"kind":"PodList",%b}' % (b" ,\n".join(items), meta)
    )
    assert [bytes(item) for item in page.items or ()] == items
    assert (page.kind, page.metadata.resource_version) == ("PodList", "9")
    assert page.metadata.continue_ == "more"
    heads = [decoder.decode_partial_object(item).metadata for item in page.items or ()]
    assert [meta.name for meta in heads if meta] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'"',
        b'{"metadata":' + b"[" * 20_000,
        b"]" * 2_000 + b"[" * 2_000,
        b'{"metadata":{"name":5}}',
        b'{"metadata":{"name":"\xff"}}',
    ],
)
def test_what_names_no_object_is_refused(line: bytes) -> None:
    """Without a name nobody can say which object an event is about (IQ-29)."""
    with pytest.raises(msgspec.MsgspecError):
        decoder.decode_partial_object(line)
    with pytest.raises(msgspec.MsgspecError):
        decoder.decode_event(b'{"type":"ADDED","object":%b}' % line)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"PodList","items":[7,%b]}' % DEEP,
        b'{"kind":"PodList","items":[{},"x",%b]}' % DEEP,
        b'{"kind":"PodList","items":[%b}' % DEEP,
        b'{"kind":"PodList","items":[{"a":%b}]' % DEEP,
    ],
)
def test_a_page_that_cannot_be_split_is_refused(body: bytes) -> None:
    """Nothing is taken for an item that is none."""
    with pytest.raises(msgspec.MsgspecError):
        decoder.decode_list_page(body)


@given(objects, st.booleans())
def test_strings_are_found_as_a_decoder_finds_them(told: dict[str, Any], spaced: bool) -> None:
    """Each string under a path of keys is what the JSON library reads there (F-1)."""
    separators = (" , ", " : ") if spaced else (",", ":")
    text = json.dumps(told, separators=separators).encode()
    expected = {path: value for path, value in _strings(told) if len(path) <= 3}
    wanted = frozenset({*expected, ("no", "such", "path")})
    assert decoder.find_strings(text, wanted, wanted) == expected


@given(st.lists(objects | st.lists(values, max_size=3), max_size=4))
def test_what_was_cut_out_is_whole(items: list[Any]) -> None:
    """Each item comes out as it was, in its order, and its number stands in its place (F-1)."""
    written = [json.dumps(item).encode() for item in items]
    body = b'{"kind": "x", "items": [%b], "metadata": {}}' % b", ".join(written)
    outer, inner = decoder.cut_below(body, levels=2)
    assert inner == written
    numbers = list(range(len(items)))
    assert json.loads(outer) == {"kind": "x", "items": numbers, "metadata": {}}


def _strings(told: dict[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    found: list[tuple[tuple[str, ...], str]] = []
    for key, value in told.items():
        if isinstance(value, str):
            found.append(((key,), value))
        elif isinstance(value, dict):
            found += [((key, *path), text) for path, text in _strings(value)]
    return found
