"""Which plugins are installed, told from metadata alone: nothing of a plugin is imported."""

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
    #: What the entry point names, `module:attribute`.
    value: str
    distribution: str
    version: str
    #: What the distribution demands of `kcm-host`, as written there; other demands are left out.
    requires: tuple[str, ...] = ()
    summary: str = ""

    @property
    def module(self) -> str:
        """The module the entry point names."""
        return self.value.partition(":")[0].partition("[")[0].strip()

    @property
    def attribute(self) -> str:
        """What it names within that module, empty when it names the module itself."""
        return self.value.partition(":")[2].partition("[")[0].strip()


def find(group: str) -> tuple[Candidate, ...]:
    """
    Give the plugins installed under this entry-point group, sorted by name and distribution.

    A distribution that is on the path twice (an editable install often is) counts once, as the
    import system sees it: the first one. Two distributions that offer the same name are both
    given. A distribution whose metadata cannot be read is logged and left out.
    """
    found = {one for dist in _distributions_with(group) for one in _candidates(dist, group)}
    return tuple(sorted(found, key=lambda one: (one.name, one.distribution, one.value)))


def _distributions_with(group: str) -> Iterator[Distribution]:
    seen = set()
    for dist in distributions():
        # Reading METADATA is what costs, so the small file is looked at first.
        if group not in (_text(dist, "entry_points.txt") or ""):
            continue
        name = _headers(dist)["Name"]
        if not name:
            _unreadable(dist, "METADATA")
        elif canonicalize_name(name) not in seen:
            seen.add(canonicalize_name(name))
            # A copy earlier on the path hides this one, even when it has no such group.
            yield next(iter(distributions(name=name)), dist)


def _candidates(dist: Distribution, group: str) -> Iterator[Candidate]:
    headers = _headers(dist)
    for entry in _entry_points(dist, group):
        yield Candidate(
            name=entry.name,
            value=entry.value,
            distribution=headers["Name"],
            version=headers["Version"] or "",
            requires=tuple(_about_host(headers.get_all("Requires-Dist") or ())),
            summary=headers["Summary"] or "",
        )


def _entry_points(dist: Distribution, group: str) -> Iterable[EntryPoint]:
    try:
        return dist.entry_points.select(group=group)
    except (TypeError, ValueError):  # what a line without "=" raises differs by Python version
        _unreadable(dist, "entry_points.txt")
        return ()


def _about_host(requires: Iterable[str]) -> Iterator[str]:
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
        "a distribution's metadata cannot be read; reinstall it or remove its folder",
        extra={"kv": {"file": file, "folder": str(dist.locate_file(""))}},
    )
