"""The plugins of this environment, each tried as if it were enabled."""

from kcm_host import __version__
from kcm_host.plugins.extensions import load_extensions
from kcm_host.plugins.finder import find
from kcm_host.plugins.groups import CONTROLLER, EXTENSION
from kcm_host.plugins.listing import PluginInfo, listed
from kcm_host.plugins.loader import load


def installed() -> list[PluginInfo]:
    """Give every installed plugin, and whether it would run; all of them are imported."""
    controllers, extensions = find(CONTROLLER.group), find(EXTENSION.group)
    loading = load(controllers, {one.name for one in controllers}, host_version=__version__)
    names = {one.name for one in extensions}
    watching = load_extensions(extensions, names, host_version=__version__).loading
    return [*listed(controllers, loading, CONTROLLER), *listed(extensions, watching, EXTENSION)]


def installed_names() -> list[str]:
    """Give the names alone; nothing is imported."""
    groups = (CONTROLLER.group, EXTENSION.group)
    return sorted({one.name for group in groups for one in find(group)})
