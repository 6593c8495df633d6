"""Thousands of equal objects in seconds: one is created through the API, the rest are copies."""

import base64
import http.client
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kcm_host_testing import probe
from kcm_host_testing.etcd import Etcd

# etcd takes 128 operations and 1.5 MB in one transaction.
BATCH = 100


@dataclass(frozen=True, slots=True)
class Pattern:
    """An object as the API server stored it: its key in etcd, and the bytes."""

    key: str
    value: bytes

    def copied(self, replaced: Mapping[str, str]) -> "Pattern":
        """
        Return the same with some texts replaced by others, in the key and in the bytes.

        A new text must be as long as the old one: lengths stand in those bytes.
        """
        key, value = self.key, self.value
        for old, new in replaced.items():
            if len(new) != len(old):
                raise ValueError(f"'{new}' is not as long as '{old}'; pad it")
            key, value = key.replace(old, new), value.replace(old.encode(), new.encode())
        return Pattern(key, value)


def clone(etcd: Etcd, *, path_end: str, uid: str, names: Iterable[str]) -> None:
    """
    Copy the object whose key in etcd ends with `path_end` under each of the names.

    The copy has the original's bytes but for name and uid, so it is exactly what the API server
    would have stored itself; an object that exists is overwritten. The names must be as long as
    the original's.
    """
    original = path_end.rpartition("/")[2]
    found = stored(etcd, path_end)
    put(etcd, (found.copied({original: name, uid: new_uid()}) for name in names))


def stored(etcd: Etcd, path_end: str) -> Pattern:
    """Return the object whose key in etcd ends with `path_end`."""
    keys = _call(etcd, "range", {"key": _text(b"/"), "range_end": _text(b"0"), "keys_only": True})
    found = (base64.b64decode(each["key"]).decode() for each in keys["kvs"])
    key = next(key for key in found if key.endswith(path_end))
    answer = _call(etcd, "range", {"key": _text(key.encode())})
    return Pattern(key, base64.b64decode(answer["kvs"][0]["value"]))


def put(etcd: Etcd, objects: Iterable[Pattern]) -> None:
    """
    Put them into etcd, a hundred in a transaction; one that exists is overwritten.

    The hundred have the same resourceVersion, which objects of an API server never have. A watch
    that is cut among them and goes on from there misses the others: while somebody watches,
    `put_singly` is right.
    """
    for some in _batches(objects):
        _call(etcd, "txn", {"success": [{"requestPut": _put(each)} for each in some]})


def put_singly(etcd: Etcd, objects: Iterable[Pattern]) -> None:
    """Put them into etcd one after the other, each with a resourceVersion of its own."""
    connection = http.client.HTTPConnection(etcd.url.removeprefix("http://"), timeout=30)
    try:
        for each in objects:
            connection.request("POST", "/v3/kv/put", body=json.dumps(_put(each)))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"etcd answered {answer.status} to 'put': {text[:500].decode()}")
    finally:
        connection.close()


def _put(thing: Pattern) -> dict[str, str]:
    return {"key": _text(thing.key.encode()), "value": _text(thing.value)}


def new_uid() -> str:
    """Return a uid that no object has."""
    return str(uuid.uuid4())


def _call(etcd: Etcd, operation: str, body: dict[str, Any]) -> Any:
    status, answer = probe.request(
        f"{etcd.url}/v3/kv/{operation}", method="POST", body=body, timeout_seconds=30
    )
    if status != 200:
        raise RuntimeError(f"etcd answered {status} to '{operation}': {answer[:500].decode()}")
    return json.loads(answer)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _batches(objects: Iterable[Pattern]) -> Iterator[Sequence[Pattern]]:
    rest = iter(objects)
    while some := list(islice(rest, BATCH)):
        yield some
