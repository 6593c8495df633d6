"""Models of pods, and the bytes a server would send about them."""

from collections import Counter
from typing import Any, ClassVar

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.watch import Change
from kcm_host.informer import decoder
from kcm_host.informer.shared_informer import SharedInformer
from kcm_host.informer.store import Entry, Store

POD = Kind(group="", version="v1", name="Pod", resource="pods")
ROLE = Kind(
    group="rbac.authorization.k8s.io",
    version="v1",
    name="ClusterRole",
    resource="clusterroles",
    namespaced=False,
)
A, B, C, D = (Key(name, "team") for name in "abcd")


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod as most tests read it."""

    node: str = ""
    labels: tuple[str, ...] = ()


class Phase(msgspec.Struct, frozen=True, gc=False):
    """The same pod as another controller reads it."""

    phase: str = ""


class Counted(msgspec.Struct, frozen=True, gc=False):
    """A pod that counts how often one was decoded."""

    decoded: ClassVar[Counter[str]] = Counter()
    node: str = ""

    def __post_init__(self) -> None:
        """Count."""
        self.decoded[self.node] += 1


class Touchy(msgspec.Struct, frozen=True, gc=False):
    """A model with code of its own, which breaks on one node."""

    node: str = ""

    def __post_init__(self) -> None:
        """Break."""
        if self.node == "broken":
            raise LookupError(self.node)


def entry(version: str, *, uid: str = "u1", whole: bytes = b"", **fields: Any) -> Entry[Pod]:
    """Return a stored pod."""
    return Entry(Pod(**fields), uid, version, full_object=whole)


def undecodable_entry(version: str, *, uid: str = "u1") -> Entry[Pod]:
    """Return an object whose version did not fit the model."""
    return Entry(None, uid, version, undecodable=True)


def pod(key: Key, version: str, *, uid: str = "u1", **fields: Any) -> bytes:
    """Return the JSON of a pod."""
    meta = {"name": key.name, "namespace": key.namespace, "uid": uid, "resourceVersion": version}
    return msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", "metadata": meta, **fields})


def event(informer: SharedInformer, sort: str, body: bytes) -> None:
    """Feed one event of a watch."""
    line = _line(sort, body)
    informer.apply(sort, line, decoder.decode_event(line).object)


def begin_streaming_list(informer: SharedInformer, *events: tuple[str, bytes]) -> None:
    """Feed a streaming list that is not complete yet."""
    informer.init()
    for sort, body in events:
        line = _line(sort, body)
        informer.init_apply(sort, line, decoder.decode_event(line).object)


def streaming_list(informer: SharedInformer, *events: tuple[str, bytes]) -> None:
    """Feed a whole streaming list."""
    begin_streaming_list(informer, *events)
    finish_list(informer)


def paged_list(informer: SharedInformer, *bodies: bytes) -> None:
    """Feed a whole list that came in pages."""
    informer.init()
    for body in bodies:
        informer.init_apply_item(msgspec.Raw(body))
    finish_list(informer)


def finish_list(informer: SharedInformer) -> None:
    """Put the gathered objects in place."""
    for _ in informer.init_done():
        pass


def replace_list(store: Store[Pod], fresh: dict[Key, Entry[Pod]]) -> list[Change[Pod]]:
    """Put a complete list in place of what is stored, and give the differences."""
    steps = store.stage(fresh)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return store.commit(end.value)


def _line(sort: str, body: bytes) -> bytes:
    return msgspec.json.encode({"type": sort, "object": msgspec.Raw(body)})


class RecordingHandler:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.changes: list[Change[Any]] = []
        #: How many changes had been told at each call of `synced`.
        self.synced_after: list[int] = []

    def on_change(self, change: Change[Any]) -> None:
        """Write one change down."""
        self.changes.append(change)

    def on_synced(self) -> None:
        """Write down when."""
        self.synced_after.append(len(self.changes))

    def told(self) -> list[tuple[str, str]]:
        """Return what has been told since the last time: sort and name of each change."""
        changes, self.changes = self.changes, []
        return [(sort(change), change.key.name) for change in changes]


def sort(change: Change[Any]) -> str:
    """Name a change in the words of causes."""
    if change.old is None:
        return "added"
    return "deleted" if change.new is None else "updated"
