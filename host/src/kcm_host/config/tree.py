"""Settings as a tree of values, each with its origin."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kcm_host.yaml_text import Scalar

Kind = Literal["file", "variable", "flag", "default"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value; `str()` of it is for error messages."""

    kind: Kind
    name: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "file":
                return f"{self.name}:{self.line}" if self.line else self.name
            case "variable":
                return f"variable {self.name}"
            case "flag":
                return f"flag {self.name}"
            case "default":
                return "default"

    @property
    def place(self) -> str:
        """As `str()`, with the column."""
        return f"{self}:{self.column}" if self.column else str(self)


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Node:
    """One value with its origin; `key` is the origin of its key, if it has one."""

    value: "Scalar | dict[str, Node] | list[Node]"
    origin: Origin
    key: Origin | None = None

    @property
    def entries(self) -> "dict[str, Node]":
        """The entries of a mapping; empty for everything else."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """Return the value without origins, as new dicts and lists."""
        match self.value:
            case dict() as entries:
                return {key: node.plain() for key, node in entries.items()}
            case list() as items:
                return [node.plain() for node in items]
            case scalar:
                return scalar

    def child(self, key: str | int) -> "Node | None":
        """Return the value under `key` (an index in a list), None if there is none."""
        if isinstance(self.value, list):
            inside = isinstance(key, int) and 0 <= key < len(self.value)
            return self.value[key] if inside and isinstance(key, int) else None
        return self.entries.get(key) if isinstance(key, str) else None

    def at(self, path: Path) -> "Node | None":
        """Return the value at `path`, None if there is none."""
        node: Node | None = self
        for key in path:
            node = node.child(key) if node else None
        return node


def mapping(origin: Origin, entries: dict[str, Node] | None = None) -> Node:
    """Return a mapping of that origin, by default an empty one."""
    return Node(value={} if entries is None else entries, origin=origin)


def nested(path: Sequence[str], node: Node) -> Node:
    """Return nested mappings with `node` at `path`."""
    for key in reversed(path):
        inner = Node(value=node.value, origin=node.origin, key=node.key or node.origin)
        node = mapping(node.origin, {key: inner})
    return node


def merge(base: Node, over: Node) -> Node:
    """Return `base` overlaid with `over`: mappings are merged by key, other values replaced."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    # The place of the lower layer: an error about a missing key belongs into the file.
    return Node(value=merged, origin=base.origin, key=base.key)


def locate(root: Node, steps: Sequence[str | int]) -> tuple[Path, Node]:
    """Return the deepest value along `steps` and its path; steps without a value are skipped."""
    path: Path = ()
    for step in steps:
        inner = root.child(step)
        # pydantic's locations name also the members of unions and the functions of validators,
        # which no document has.
        if inner is not None:
            root, path = inner, (*path, step)
    return path, root


def dotted(path: Sequence[str | int]) -> str:
    """Return the path in the form of `--set`: dots between keys, a dot in a key is escaped."""
    return "".join(_segments(path)).removeprefix(".")


def _segments(path: Sequence[str | int]) -> Iterator[str]:
    for key in path:
        yield f"[{key}]" if isinstance(key, int) else "." + key.replace(".", "\\.")
