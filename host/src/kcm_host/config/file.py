"""The configuration file, read from disk or from stdin."""

import errno
import sys
from pathlib import Path
from typing import Final, Literal

from kcm_host.config.problems import Problem
from kcm_host.config.tree import Node, Origin
from kcm_host.config.yamlfile import read_text

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
