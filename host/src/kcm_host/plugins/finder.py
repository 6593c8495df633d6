"""Finds the installed plugins by their metadata; no plugin is imported."""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import Distribution, EntryPoint, distributions

from packaging.utils import canonicalize_name

logger = logging.getLogger(__name__)

_HOST = canonicalize_name("kcm-host")
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One installed entry point: a plugin that could be loaded."""

    name: str
    #: The object reference of the entry point, `module:attribute`.
    value: str
    distribution: str
    version: str
    #: The requirements of the distribution on `kcm-host`, as written.
    requires: tuple[str, ...] = ()
    summary: str = ""

    @property
    def module(self) -> str:
        """The module of the entry point."""
        return self.value.partition(":")[0].partition("[")[0].strip()

    @property
    def attribute(self) -> str:
        """The attribute in that module, empty when the entry point names the module."""
        return self.value.partition(":")[2].partition("[")[0].strip()


def find(group: str) -> tuple[Candidate, ...]:
    """
    Return the plugins installed under this entry-point group, sorted by name and distribution.

    Of a distribution that is on the path twice (as an editable install often is) the first one
    counts, which is the one that is imported. Two distributions with the same plugin name are both
    returned. A distribution whose metadata cannot be read is logged and left out.
    """
    found = {one for dist in _distributions_with(group) for one in _candidates(dist, group)}
    return tuple(sorted(found, key=lambda one: (one.name, one.distribution, one.value)))


def _distributions_with(group: str) -> Iterator[Distribution]:
    seen = set()
    for dist in distributions():
        # METADATA is expensive to read, so the small file is read first.
        if group not in (_text(dist, "entry_points.txt") or ""):
            continue
        name = _headers(dist)["Name"]
        if not name:
            _unreadable(dist, "METADATA")
        elif canonicalize_name(name) not in seen:
            seen.add(canonicalize_name(name))
            # A copy earlier on the path shadows this one, even without the group.
            yield next(iter(distributions(name=name)), dist)


def _candidates(dist: Distribution, group: str) -> Iterator[Candidate]:
    headers = _headers(dist)
    for entry in _entry_points(dist, group):
        yield Candidate(
            name=entry.name,
            value=entry.value,
            distribution=headers["Name"],
            version=headers["Version"] or "",
            requires=tuple(_host_requirements(headers.get_all("Requires-Dist") or ())),
            summary=headers["Summary"] or "",
        )


def _entry_points(dist: Distribution, group: str) -> Iterable[EntryPoint]:
    try:
        return dist.entry_points.select(group=group)
    except (TypeError, ValueError):  # what a line without "=" raises differs by Python version
        _unreadable(dist, "entry_points.txt")
        return ()


def _host_requirements(requires: Iterable[str]) -> Iterator[str]:
    for text in requires:
        name = _REQUIRED_NAME.match(text)
        if name and canonicalize_name(name[0]) == _HOST:
            yield text


def _headers(dist: Distribution) -> "Message[str, str]":
    text = _text(dist, "METADATA") or _text(dist, "PKG-INFO") or ""
    return HeaderParser().parsestr(text)


def _text(dist: Distribution, file: str) -> str | None:
    try:
        return dist.read_text(file)
    except (OSError, UnicodeDecodeError):
        _unreadable(dist, file)
        return None


def _unreadable(dist: Distribution, file: str) -> None:
    logger.warning(
        "metadata of a distribution unreadable",
        extra={
            "kv": {
                "file": file,
                "folder": str(dist.locate_file("")),
                "remedy": "reinstall it or remove its folder",
            }
        },
    )
