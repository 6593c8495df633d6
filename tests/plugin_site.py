"""Plugins for other processes: modules and metadata in a folder for PYTHONPATH."""

from pathlib import Path
from textwrap import dedent, indent

CONTROLLERS, EXTENSIONS = "kcm_host.controllers", "kcm_host.extensions"

#: A controller of config maps that passes every check; a test puts its own `kcm_sync` into it.
CONTROLLER = """
    import asyncio
    import msgspec
    from kcm_host.api import Done, Key, Kind, Watch, hookimpl

    class ConfigMap(msgspec.Struct, frozen=True, gc=False):
        metadata: dict[str, object] = {}

    CONFIG_MAPS = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")

    class Loop:
        @hookimpl
        def kcm_watches(self):
            keys = lambda change, view: [change.key]
            return [Watch(kind=CONFIG_MAPS, model=ConfigMap, keys=keys)]

        @hookimpl
        async def kcm_sync(self, key):
            SYNC
            return Done()

        @hookimpl
        def kcm_status(self):
            return {}
"""


def controller(sync: str = "pass", *, settings: str = "") -> str:
    """Return the source of a controller with these statements in its sync, then `settings`."""
    body = indent(dedent(sync), " " * 8).strip()
    return dedent(CONTROLLER).replace("SYNC", body) + dedent(settings)


class PluginSite:
    """A new folder that stands for site-packages of a process that is started later."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    @property
    def environment(self) -> dict[str, str]:
        """The variable that makes a Python process see the folder."""
        return {"PYTHONPATH": str(self.folder)}

    def module(self, name: str, source: str) -> Path:
        """Write one module."""
        path = self.folder / f"{name}.py"
        path.write_text(dedent(source))
        return path

    def metadata(self, distribution: str, entry: str, *, group: str = CONTROLLERS) -> None:
        """Write the metadata of a distribution with one entry point, `name = module:attribute`."""
        info = self.folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", "Version: 1.0"]
        (info / "METADATA").write_text("\n".join([*lines, "Summary: Made for a test", ""]))
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")

    def plugin(self, name: str, source: str, *, group: str = CONTROLLERS) -> Path:
        """Install class `Loop` of a module with this source, as distribution `acme-<name>`."""
        module = f"acme_{name}"
        self.metadata(f"acme-{name}", f"{name} = {module}:Loop", group=group)
        return self.module(module, source)
