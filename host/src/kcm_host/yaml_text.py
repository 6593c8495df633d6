"""
YAML of untrusted files, such as the config file and kubeconfigs: bounded, and plain values only.

Small texts can expand to gigabytes, overflow the stack of the composer, or have numbers that take
minutes to convert; these are refused with their place.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import yaml

Scalar = str | int | float | bool | None

# Six times as fast, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE: Final = "tag:yaml.org,2002:merge"
_BOOL = "tag:yaml.org,2002:bool"
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
#: Deeper texts overflow the stack of the composer (F-24).
_MAX_DEPTH = 50
#: Bounded: the conversion of a long number takes time by the square of its length (F-24).
_DECIMAL = re.compile(r"[-+]?[0-9]{1,4000}", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,3000}", re.ASCII)
_TEXT_TAGS = ("str", "timestamp", "value", "merge")


class Mark(Protocol):
    """A place in a text, counted from 0; PyYAML and libyaml have different classes for it."""

    @property
    def line(self) -> int:
        """The number of lines before it."""
        ...

    @property
    def column(self) -> int:
        """The number of characters before it in its line."""
        ...


class Unreadable(Exception):
    """The document uses YAML in an unsupported way, at `mark`."""

    def __init__(self, fact: str, mark: Mark | None) -> None:
        super().__init__(fact)
        self.fact = fact
        self.mark = mark

    @property
    def line(self) -> int:
        """The line in the text, counted from 1."""
        return self.mark.line + 1 if self.mark is not None else 1


def compose(text: str, *, max_values: int) -> yaml.Node | None:
    """
    Return the nodes of the one document in a text, None when it is empty.

    `max_values` bounds keys and values together, with aliases expanded. Raises Unreadable for more
    of them, for deep nesting and for recursive aliases; yaml.YAMLError for invalid YAML.
    """
    count = _Count(max_values)
    # Counted before it is composed: a billion laughs took over 60 s (F-24).
    for event in yaml.parse(text, Loader=_LOADER):
        count.add(event)
    return yaml.compose(text, Loader=_LOADER)


class _Size(NamedTuple):
    """The size of an expanded value: the number of values, and of levels of collections."""

    values: int
    levels: int


_SCALAR = _Size(values=1, levels=0)


class _Count:
    """Counts the expanded size of a document, event by event."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._values = 0
        #: Each open collection, the number of values before it, and the levels inside it so far.
        self._open: list[tuple[yaml.CollectionStartEvent, int, int]] = []
        #: The size of each anchor; the start event while its collection is open.
        self._anchors: dict[str | None, _Size | yaml.CollectionStartEvent] = {}

    def add(self, event: yaml.Event) -> None:
        """Count one event; raises Unreadable when a limit is exceeded."""
        match event:
            case yaml.CollectionEndEvent():
                begun, before, levels = self._open.pop()
                size = _Size(self._values - before, levels + 1)
                self._anchors[begun.anchor] = size
                self._deepen(size.levels, event)
            case yaml.CollectionStartEvent():
                self._open.append((event, self._values, 0))
                self._anchors[event.anchor] = event
                self._values += 1
                self._deepen(0, event)
            case yaml.AliasEvent():
                size = self._aliased(event)
                self._values += size.values
                self._deepen(size.levels, event)
            case yaml.ScalarEvent():
                self._anchors[event.anchor] = _SCALAR
                self._values += 1
        if self._values > self._max_values:
            raise Unreadable(
                f"more than {self._max_values} values, aliases counted", event.start_mark
            )

    def _deepen(self, levels: int, event: yaml.Event) -> None:
        """Record the levels inside the innermost open collection."""
        if len(self._open) + levels > _MAX_DEPTH:
            raise Unreadable(f"more than {_MAX_DEPTH} levels deep", event.start_mark)
        if self._open:
            begun, before, known = self._open[-1]
            self._open[-1] = (begun, before, max(known, levels))

    def _aliased(self, alias: yaml.AliasEvent) -> _Size:
        # An undefined alias is an error of the composer.
        found = self._anchors.get(alias.anchor, _SCALAR)
        if isinstance(found, _Size):
            return found
        raise Unreadable("this value contains an alias of itself", found.start_mark)


def plain_value(node: yaml.Node) -> Any:
    """
    Return a node as dicts, lists and scalars; of a duplicate key the last one counts.

    `yes` and `on` are true, as in kubeconfigs. Raises Unreadable as `key_text` and `scalar_value`
    do.
    """
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _BOOL:
            return yaml.SafeLoader.bool_values.get(node.value.lower(), node.value)
        return scalar_value(node)
    refuse_tag(node)
    if isinstance(node, yaml.SequenceNode):
        return [plain_value(item) for item in node.value]
    own: dict[str, Any] = {}
    inherited: dict[str, Any] = {}
    for key, value in node.value:
        if key.tag != MERGE:
            own[key_text(key)] = plain_value(value)
            continue
        for source in _merged(value):
            inherited = {**source, **inherited}
    return {**inherited, **own}


def _merged(node: yaml.Node) -> Iterator[dict[str, Any]]:
    found = plain_value(node)
    for source in found if isinstance(found, list) else [found]:
        if not isinstance(source, dict):
            raise Unreadable("'<<' takes a mapping or a list of mappings", node.start_mark)
        yield source


def refuse_tag(node: yaml.Node) -> None:
    """Raise Unreadable for a collection that is neither a plain mapping nor a plain list."""
    if node.tag not in _COLLECTIONS:
        raise Unreadable(f"tag '{node.tag}' is not supported; leave it out", node.start_mark)


def key_text(node: yaml.Node) -> str:
    """Return the key as written: `on` and `1` are strings, not a boolean and a number."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    raise Unreadable("a key must be text, not a mapping or a list", node.start_mark)


def scalar_value(node: yaml.ScalarNode) -> Scalar:
    """
    Return the value of a scalar by the rules of YAML 1.2, where PyYAML implements 1.1.

    `yes`, `off`, `1:30` and dates are strings and `010` is ten. Raises Unreadable for tags that are
    not supported.
    """
    text: str = node.value
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind in _TEXT_TAGS:
        return text
    match kind:
        case "null":
            return None
        case "bool":
            # The core schema of YAML 1.2: `country: NO` is a text.
            return {"true": True, "false": False}.get(text.lower(), text)
        case "int":
            return _integer(text)
        case "float":
            return _float(text)
    raise Unreadable(f"tag '{node.tag}' is not supported; leave it out", node.start_mark)


def _integer(text: str) -> int | str:
    if _DECIMAL.fullmatch(text):
        return int(text)
    return int(text, 16) if _HEXADECIMAL.fullmatch(text) else text


def _float(text: str) -> float | str:
    try:
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
