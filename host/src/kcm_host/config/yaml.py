"""YAML of the config file, of stdin, of variables and of flags."""

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
    compose,
    key_text,
    refuse_tag,
    scalar_value,
)

NOT_YAML: Final = "not valid YAML"
_MAX_VALUES = 20_000


def read_text(text: str, origin: Origin) -> tuple[Node | None, list[Problem]]:
    """
    Return the values in `text` and its problems; None without a value or without valid YAML.

    With a `file` origin every value gets its own line and column, else all share `origin`.
    Of a duplicate key the first one counts, so that the rest can still be validated.
    """
    reading = _Reading(origin)
    if not is_encodable(text):
        # Python decodes invalid UTF-8 in variables and arguments as surrogates.
        return None, [Problem("this is not UTF-8", origin=origin, remedy="write it in UTF-8")]
    try:
        document = compose(text, max_values=_MAX_VALUES)
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
    """Converts the YAML nodes of one document to a tree, and collects the problems."""

    origin: Origin
    problems: list[Problem] = field(default_factory=list)

    def place(self, mark: Mark | None) -> Origin:
        """Return the origin of a mark."""
        if self.origin.kind != "file" or mark is None:
            return self.origin
        return Origin("file", self.origin.name, line=mark.line + 1, column=mark.column + 1)

    def value(self, node: yaml.Node) -> Node:
        """Return the tree of a YAML node."""
        place = self.place(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return Node(scalar_value(node), place)
        refuse_tag(node)
        if isinstance(node, yaml.SequenceNode):
            return Node([self.value(item) for item in node.value], place)
        return self.mapping(node)

    def mapping(self, node: yaml.Node) -> Node:
        """Return the tree of a mapping: keys as written, `<<` resolved, duplicates as problems."""
        entries: dict[str, Node] = {}
        inherited = mapping(self.origin)
        for key, value in node.value:
            if key.tag == MERGE:
                inherited = merge_missing(inherited, self.inherited(value))
                continue
            name = key_text(key)
            inner = self.value(value)
            if name in entries:
                self.add_duplicate(name, entries[name], key.start_mark)
            else:
                entries[name] = Node(inner.value, inner.origin, self.place(key.start_mark))
        return merge_missing(mapping(self.place(node.start_mark), entries), inherited)

    def inherited(self, node: yaml.Node) -> Node:
        """Return the value of a merge key: one mapping, or several of which the first wins."""
        found = self.value(node)
        sources = found.value if isinstance(found.value, list) else [found]
        result = mapping(found.origin)
        for source in sources:
            if not isinstance(source.value, dict):
                raise Unreadable("'<<' takes a mapping or a list of mappings", node.start_mark)
            result = merge_missing(result, source)
        return result

    def add_duplicate(self, name: str, first: Node, mark: Mark | None) -> None:
        """Add the problem that a mapping has the key `name` twice."""
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
        """Return the error of the parser in one line."""
        fact, remedy = _syntax(text, error)
        begun = error.context_mark
        if error.context and begun and not remedy:
            fact += f" {error.context} that begins at line {begun.line + 1}"
        place = self.place(error.problem_mark or error.context_mark)
        return Problem(f"{NOT_YAML}: {fact}", origin=place, remedy=remedy)

    def character_problem(self, text: str, error: yaml.reader.ReaderError) -> Problem:
        """Return the problem of a character that is invalid in YAML, with its line."""
        before = text[: error.position]
        origin = self.origin
        if origin.kind == "file":
            origin = Origin("file", origin.name, line=before.count("\n") + 1)
        fact = f"{NOT_YAML}: {error.reason} ({error.character!r})"
        return Problem(fact, origin=origin, remedy="remove the character")


def is_encodable(text: str) -> bool:
    """Return whether a text has no surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _syntax(text: str, error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """Return the error of the parser, and a remedy for common mistakes."""
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
    """Return `base` with the entries of `more` that it lacks, as the merge key of YAML does."""
    lacking = {key: node for key, node in more.entries.items() if key not in base.entries}
    return Node({**base.entries, **lacking}, base.origin, base.key) if lacking else base


def read_value(text: str, origin: Origin) -> tuple[Node | None, list[Problem]]:
    """
    Return `text` as YAML: `3`, `true`, `5m`, `{a: 1}`; or as a string if invalid (`[::1]:10270`).

    An empty text is null. Duplicate keys and the like are problems.
    """
    node, problems = read_text(text, origin)
    # A shell user means `[::1]:10270` or `a: b: c` as a text; only real mistakes in YAML are left.
    if problems and any(problem.fact.startswith(NOT_YAML) for problem in problems):
        return Node(text, origin), []
    return (node or Node(None, origin)) if not problems else None, problems


_MAX_BYTES = 1 << 20
EXAMPLE = "controllers: {ttl: {}}"
#: Means stdin in place of a path. A file of that name is `./-`.
STDIN: Final = "-"
Source = Path | Literal["-"]


def read_file(source: Source) -> tuple[Node | None, list[Problem]]:
    """Return the mapping in the file and its problems; None if it has no usable value."""
    origin = Origin("file", "stdin" if source == STDIN else str(source))
    try:
        data = _bytes(source)
    except OSError as error:
        return None, [_unreadable(origin, error)]
    if len(data) > _MAX_BYTES:
        return None, [Problem("the file is larger than 1 MiB", origin=origin, remedy="shorten it")]
    try:
        # With the mark that editors on Windows put before the text.
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
        return sys.stdin.buffer.read(_MAX_BYTES + 1)
    assert isinstance(source, Path)
    with source.open("rb") as file:
        # One byte more than is allowed shows that there is more, without reading all of it.
        return file.read(_MAX_BYTES + 1)


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
