"""Whole objects: what nobody decodes is sent back byte for byte."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api import Key, Kind, decode_object
from kcm_host.api.objects import raw_object
from kcm_host.reconcile import requests

WIDGET = Kind(group="example.com", version="v1", name="Widget", resource="widgets")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def stored(spec: bytes, metadata: bytes = b"") -> bytes:
    """Return an object as a server sends it."""
    start = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w",'
    return start + b'"namespace":"ns","resourceVersion":"7"' + metadata + b'},"spec":' + spec + b"}"


@pytest.mark.parametrize("sort", ["spec", "managedFields"])
def test_a_deeply_nested_field_is_sent_back(sort: str) -> None:
    """F-9: no limit of an encoder applies to what is only passed on."""
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    data = stored(deep) if sort == "spec" else stored(b"{}", b',"managedFields":' + deep)
    whole = raw_object(data)
    write = requests.update(WIDGET, {**whole, "status": {"done": True}}, "status")
    assert write.key == Key("w", "ns")
    assert deep in write.body
    assert json.loads(write.body)["status"] == {"done": True}


def test_the_text_of_numbers_and_strings_stays() -> None:
    """F-9: a server that compares bytes sees no change of what it calls immutable."""
    spec = rb'{"a":1e2,"b":1.10,"c":123456789012345678901234567890,"d":"\u003c"}'
    assert spec in requests.update(WIDGET, raw_object(stored(spec)), "").body


def test_an_object_is_decoded_when_somebody_reads_it() -> None:
    """F-9: throughout, or as a model."""

    class Spec(msgspec.Struct):
        size: int = 0

    class Widget(msgspec.Struct):
        spec: Spec

    whole = raw_object(stored(b'{"size":3}'))
    assert whole["metadata"] == {"name": "w", "namespace": "ns", "resourceVersion": "7"}
    assert decode_object(whole, Widget).spec.size == 3
    assert decode_object(whole, dict[str, Any])["spec"] == {"size": 3}
    with pytest.raises(msgspec.ValidationError):
        decode_object(raw_object(stored(b'{"size":"x"}')), Widget)


@given(
    value=st.dictionaries(st.text(), VALUES, max_size=4),
    metadata=st.dictionaries(st.text(), VALUES),
)
def test_nothing_is_lost_on_the_way(value: Any, metadata: Any) -> None:
    """F-9: whatever JSON an object is made of."""
    given_object = {**value, "metadata": metadata}
    whole = raw_object(json.dumps(given_object).encode())
    assert json.loads(msgspec.json.encode(whole)) == given_object
