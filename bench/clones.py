"""Thousands of equal objects in seconds: one is created through the API, the rest are copies."""

import base64
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from kcm_host_testing import probe
from kcm_host_testing.etcd import Etcd

# etcd takes 128 operations and 1.5 MB in one transaction.
BATCH = 100


def clone(etcd: Etcd, *, path_end: str, uid: str, names: Iterable[str]) -> None:
    """
    Copy the object whose key in etcd ends with `path_end` under each of the names.

    The copy is of the bytes that the API server stored, with name and uid replaced, so it is
    exactly what the server would have stored itself; an object that exists is overwritten. The
    names must be as long as the original's: lengths stand in those bytes.
    """
    key = _find(etcd, path_end)
    value = _value(etcd, key)
    original = path_end.rpartition("/")[2]
    for some in _batches(names):
        puts = []
        for name in some:
            if len(name) != len(original):
                raise ValueError(f"'{name}' is not as long as '{original}'; pad it")
            copy = value.replace(original.encode(), name.encode())
            copy = copy.replace(uid.encode(), str(uuid.uuid4()).encode())
            new_key = key.removesuffix(original) + name
            puts.append({"requestPut": {"key": _text(new_key.encode()), "value": _text(copy)}})
        _call(etcd, "txn", {"success": puts})


def _find(etcd: Etcd, path_end: str) -> str:
    keys = _call(etcd, "range", {"key": _text(b"/"), "range_end": _text(b"0"), "keys_only": True})
    found = [base64.b64decode(each["key"]).decode() for each in keys["kvs"]]
    return next(key for key in found if key.endswith(path_end))


def _value(etcd: Etcd, key: str) -> bytes:
    return base64.b64decode(_call(etcd, "range", {"key": _text(key.encode())})["kvs"][0]["value"])


def _call(etcd: Etcd, operation: str, body: dict[str, Any]) -> Any:
    status, answer = probe.request(
        f"{etcd.url}/v3/kv/{operation}", method="POST", body=body, timeout_seconds=30
    )
    if status != 200:
        raise RuntimeError(f"etcd answered {status} to '{operation}': {answer[:500].decode()}")
    return json.loads(answer)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _batches(names: Iterable[str]) -> Iterator[Sequence[str]]:
    rest = iter(names)
    while some := list(islice(rest, BATCH)):
        yield some
