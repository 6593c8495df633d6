"""YAML from the configuration file, from stdin, from variables and from flags."""

import errno
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import yaml

from kcm_host.config.errors import Problem
from kcm_host.config.tree import Node, Origin, mapping
from kcm_host.yaml_text import (
    MERGE,
    Mark,
    Unreadable,
    composed,
    key_text,
    refuse_tag,
    scalar_value,
)

NOT_YAML: Final = "not valid YAML"
_MOST_VALUES = 20_000


def read_text(text: str, origin: Origin) -> tuple[Node | None, list[Problem]]:
    """
    The values in `text` and what is wrong with it; None where there is no value or no valid YAML.

    With a `file` origin every value gets its own line and column, else all share `origin`.
    Where a key stands twice the first one counts, so that the rest can still be checked.
    """
    reading = _Reading(origin)
    if not is_encodable(text):
        # Bytes of a variable or an argument that are no UTF-8 come as surrogates.
        return None, [Problem("this is not UTF-8", origin=origin, remedy="write it in UTF-8")]
    try:
        document = composed(text, most=_MOST_VALUES)
        node = reading.value(document) if document is not None else None
    except yaml.MarkedYAMLError as error:
        return None, [reading.syntax_problem(text, error)]
    except yaml.reader.ReaderError as error:
        return None, [reading.character_problem(text, error)]
    except Unreadable as error:
        return None, [*reading.problems, Problem(error.fact, origin=reading.place(error.mark))]
    return node, reading.problems


@dataclass(slots=True)
class _Reading:
    """Turns the nodes of one document into ours and collects what is wrong with them."""

    origin: Origin
    problems: list[Problem] = field(default_factory=list)

    def place(self, mark: Mark | None) -> Origin:
        """Where `mark` points to, as an origin."""
        if self.origin.kind != "file" or mark is None:
            return self.origin
        return Origin("file", self.origin.name, line=mark.line + 1, column=mark.column + 1)

    def value(self, node: yaml.Node) -> Node:
        """Our form of `node`."""
        place = self.place(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return Node(scalar_value(node), place)
        refuse_tag(node)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.value(item) for item in node.value], place)
        return self.mapping(node)

    def mapping(self, node: yaml.Node) -> Node:
        """Our form of a mapping: keys as they are written, `<<` resolved, doubles reported."""
        entries: dict[str, Node] = {}
        inherited = mapping(self.origin)
        for key, value in node.value:
            if key.tag == MERGE:
                inherited = merge_missing(inherited, self.inherited(value))
                continue
            name = key_text(key)
            inner = self.value(value)
            if name in entries:
                self.doubled(name, entries[name], key.start_mark)
            else:
                entries[name] = Node(inner.value, inner.origin, self.place(key.start_mark))
        return merge_missing(mapping(self.place(node.start_mark), entries), inherited)

    def inherited(self, node: yaml.Node) -> Node:
        """What a merge key brings: one mapping, or several of which the first wins."""
        found = self.value(node)
        sources = found.value if isinstance(found.value, list) else [found]
        result = mapping(found.origin)
        for source in sources:
            if not isinstance(source.value, dict):
                raise Unreadable("'<<' takes a mapping or a list of mappings", node.start_mark)
            result = merge_missing(result, source)
        return result

    def doubled(self, name: str, first: Node, mark: Mark | None) -> None:
        """Note that the key `name` stands twice in one mapping."""
        where = first.key or first.origin
        self.problems.append(
            Problem(
                f"key '{name}' stands here again, first at line {where.line}"
                if where.line
                else f"key '{name}' stands here twice",
                origin=self.place(mark),
                remedy="remove one of them",
            )
        )

    def syntax_problem(self, text: str, error: yaml.MarkedYAMLError) -> Problem:
        """What the parser could not read, in one line."""
        fact, remedy = _syntax(text, error)
        begun = error.context_mark
        if error.context and begun and not remedy:
            fact += f" {error.context} that begins at line {begun.line + 1}"
        place = self.place(error.problem_mark or error.context_mark)
        return Problem(f"{NOT_YAML}: {fact}", origin=place, remedy=remedy)

    def character_problem(self, text: str, error: yaml.reader.ReaderError) -> Problem:
        """Which character YAML forbids, and in which line."""
        before = text[: error.position]
        origin = self.origin
        if origin.kind == "file":
            origin = Origin("file", origin.name, line=before.count("\n") + 1)
        fact = f"{NOT_YAML}: {error.reason} ({error.character!r})"
        return Problem(fact, origin=origin, remedy="remove the character")


def is_encodable(text: str) -> bool:
    """Whether a text is free of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _syntax(text: str, error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """The parser's complaint, and a remedy where it is a common mistake."""
    fact, mark = str(error.problem or error.context), error.problem_mark
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line][mark.column :].startswith("\t"):
        return "a tab stands where only spaces may", "indent with spaces"
    if "another document" in fact:
        return "a second document begins here", "keep one: remove what follows the line '---'"
    if "mapping values are not allowed" in fact:
        return "a colon stands where no key can be", "check the indentation, or quote the text"
    return fact, ""


def merge_missing(base: Node, more: Node) -> Node:
    """`base` with the entries of `more` that it lacks, as YAML's merge key has it: not deep."""
    lacking = {key: node for key, node in more.entries.items() if key not in base.entries}
    return Node({**base.entries, **lacking}, base.origin, base.key) if lacking else base


def read_value(text: str, origin: Origin) -> tuple[Node | None, list[Problem]]:
    """
    What `text` means: `3`, `true`, `5m`, `{a: 1}`, or itself where it is no YAML (`[::1]:10270`).

    An empty text is null. Keys that stand twice and the like are problems.
    """
    node, problems = read_text(text, origin)
    if problems and any(problem.fact.startswith(NOT_YAML) for problem in problems):
        return Node(text, origin), []
    return (node or Node(None, origin)) if not problems else None, problems


_LARGEST_BYTES = 1 << 20
EXAMPLE = "controllers: {ttl: {}}"
#: In place of a path: what stands on stdin, to its end. A file of that name is `./-`.
STDIN: Final = "-"
Source = Path | Literal["-"]


def read_file(source: Source) -> tuple[Node | None, list[Problem]]:
    """The top mapping of the file and what is wrong with it; None if it holds nothing usable."""
    origin = Origin("file", "stdin" if source == STDIN else str(source))
    try:
        data = _bytes(source)
    except OSError as error:
        return None, [_unreadable(origin, error)]
    if len(data) > _LARGEST_BYTES:
        return None, [Problem("the file is larger than 1 MiB", origin=origin, remedy="shorten it")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [_not_utf8(origin, data, error)]
    root, problems = read_text(text, origin)
    if not problems and (root is None or root.value is None):
        return None, [
            Problem("the file is empty", origin=origin, remedy=f"write for example '{EXAMPLE}'")
        ]
    if root is not None and not isinstance(root.value, dict):
        kind = "a list" if isinstance(root.value, list) else "a single value"
        fact = f"the file must hold a mapping, found {kind}"
        return None, [
            *problems,
            Problem(fact, origin=root.origin, remedy=f"write for example '{EXAMPLE}'"),
        ]
    return root, problems


def _bytes(source: Source) -> bytes:
    if source == STDIN:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        return sys.stdin.buffer.read(_LARGEST_BYTES + 1)
    assert isinstance(source, Path)
    with source.open("rb") as file:
        return file.read(_LARGEST_BYTES + 1)


def _unreadable(origin: Origin, error: OSError) -> Problem:
    match error:
        case FileNotFoundError():
            return Problem("there is no such file", origin=origin, remedy="check the path")
        case IsADirectoryError():
            return Problem("this is a directory", origin=origin, remedy="name a file inside it")
        case PermissionError():
            return Problem(
                "the file may not be read", origin=origin, remedy="check its owner and mode"
            )
        case _:
            reason = error.strerror or str(error)
            return Problem(f"the file cannot be read: {reason}", origin=origin)


def _not_utf8(origin: Origin, data: bytes, error: UnicodeDecodeError) -> Problem:
    line = data.count(b"\n", 0, error.start) + 1
    return Problem(
        f"not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}",
        origin=Origin("file", origin.name, line=line),
        remedy="save the file as UTF-8",
    )
