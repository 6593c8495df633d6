"""Full objects whose fields stay as the API server wrote them until they are decoded."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder(Any).decode


def raw_object(data: bytes) -> dict[str, Any]:
    """
    Return an object with its metadata decoded and every other field as `msgspec.Raw`.

    What is only passed on is sent back byte for byte: no limit of nesting applies to it, and no
    number changes its text. `managedFields` nest as deep as the object does and stay raw too.
    Raises `msgspec.MsgspecError` if `data` is no JSON object, and `RecursionError`.
    """
    full: dict[str, Any] = dict(_fields(data))
    if "metadata" in full:
        metadata = _fields(full["metadata"])
        full["metadata"] = {
            name: value if name == "managedFields" else _any(value)
            for name, value in metadata.items()
        }
    return full


def decode_object(full_object: Mapping[str, Any], model: type[T]) -> T:
    """
    Return an object of `Objects.full_object` or of a `Writer` as `model`, or as `dict` throughout.

    Raises `msgspec.ValidationError` if it does not fit.
    """
    return msgspec.json.decode(msgspec.json.encode(full_object), type=model)
