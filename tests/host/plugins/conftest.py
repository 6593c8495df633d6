"""Distributions made for one test: real metadata and modules on the import path."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.plugins.loader import LoadResult, load

_numbers = count()

#: A controller that passes every check; tests break one part of it.
GOOD = """
    import msgspec
    from kcm_host.api import Done, Key, Kind, Watch, hookimpl

    class Node(msgspec.Struct, frozen=True):
        metadata: dict = {}

    NODE = Kind(group="", version="v1", name="Node", resource="nodes", namespaced=False)

    class Loop:
        @hookimpl
        def kcm_watches(self, discovery):
            return [Watch(kind=NODE, model=Node, keys=lambda change, view: [change.key])]

        @hookimpl
        async def kcm_sync(self, key, view, writer):
            return Done()

        @hookimpl
        def kcm_status(self, view):
            return {"loops": 1}
"""
#: A settings model, for the end of a good plugin.
SETTINGS = """
    @staticmethod
    @hookimpl
    def kcm_settings():
        return Settings

import pydantic

class Settings(pydantic.BaseModel):
    depth: int = 1
"""


@dataclass
class Site:
    """A replacement of site-packages: every distribution has its own folder on the path."""

    root: Path
    prepend: Callable[[str], None]
    modules: list[str] = field(default_factory=list)

    def module(self, source: str) -> str:
        """Write a module with a unique name, and return the name."""
        name = f"loading_case_{next(_numbers)}"
        self.modules.append(name)
        folder = self.root / name
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(dedent(source))
        self.prepend(str(folder))
        return name

    def distribution(
        self,
        name: str,
        *entries: str,
        version: str = "1.0",
        metadata: str = "",
        group: str = CONTROLLER.group,
    ) -> Path:
        """Install metadata with these entry points, `name = module:attribute`."""
        folder = self.root / f"dist_{next(_numbers)}"
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
        (info / "METADATA").write_text(lines)
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries]) + "\n")
        self.prepend(str(folder))
        return folder

    def plugin(
        self, name: str, source: str = GOOD, *, attribute: str = "Loop", **more: str
    ) -> Path:
        """Install a module with one plugin in it, as distribution `acme-<name>`."""
        module = self.module(source)
        folder = self.root / module
        self.distribution(f"acme-{name}", f"{name} = {module}:{attribute}", **more)
        return folder / f"{module}.py"

    def load(self, *enabled: str, host_version: str = "0.2.0") -> LoadResult:
        """Find and load controllers."""
        return load(find(CONTROLLER.group), enabled, host_version=host_version)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Yield an empty site, whose modules are removed after the test."""
    made = Site(tmp_path, monkeypatch.syspath_prepend)
    yield made
    for name in made.modules:
        sys.modules.pop(name, None)


@pytest.fixture
def good() -> str:
    """Return the source of a controller that passes every check."""
    return dedent(GOOD)
