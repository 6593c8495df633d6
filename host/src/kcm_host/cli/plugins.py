"""`kcm-host plugins`: what is installed, and whether it would run."""

import click

from kcm_host import __version__
from kcm_host.cli.options import fail, output_option
from kcm_host.cli.output import Table, show
from kcm_host.config.names import short_name
from kcm_host.config.problems import did_you_mean
from kcm_host.loading.extensions import load_extensions
from kcm_host.loading.finder import find
from kcm_host.loading.listing import PluginInfo, listed
from kcm_host.loading.loader import load
from kcm_host.loading.roles import CONTROLLER, EXTENSION


@click.group()
def plugins() -> None:
    """Show the installed plugins."""


@plugins.command("list")
@output_option
def list_plugins(output: str) -> None:
    """List installed controllers and extensions, and whether they would run."""
    table = Table("name", "role", "state", "distribution", "version", "summary")
    for info in _installed():
        table.add(info.name, info.role, info.state, info.distribution, info.version, info.summary)
    if not table.rows and output == "table":
        click.echo("no plugin is installed; try: pip install kcm-host-ttl", err=True)
    show(table, output)


@plugins.command("info")
@click.argument("name")
@output_option
def info(name: str, output: str) -> None:
    """Show what is known of one plugin."""
    wanted = short_name(name)
    installed = _installed()
    found = [info for info in installed if info.name == wanted]
    if not found:
        advice = did_you_mean(wanted, [info.name for info in installed])
        remedy = f"; {advice}" if advice else ""
        fail(f"no installed plugin is called '{name}'{remedy}", 2)
    table = Table("fact", "value")
    for one in found:
        for fact, value in _facts(one).items():
            table.add(fact, value)
    show(table, output)


def _facts(info: PluginInfo) -> dict[str, str]:
    model = info.settings_model
    facts = {
        "name": info.name,
        "role": info.role,
        "state": info.state,
        "distribution": f"{info.distribution} {info.version}",
        "summary": info.summary,
        "entry point": info.value,
        "hooks": ", ".join(info.hooks),
        "settings": ", ".join(model.model_fields) if model else "none",
    }
    if info.problem:
        facts["problem"] = f"{info.problem.stage}: {info.problem.reason}"
        facts["remedy"] = info.problem.remedy
    return facts


def _installed() -> list[PluginInfo]:
    controllers, extensions = find(CONTROLLER.group), find(EXTENSION.group)
    loading = load(controllers, {one.name for one in controllers}, host_version=__version__)
    names = {one.name for one in extensions}
    watching = load_extensions(extensions, names, host_version=__version__).loading
    return [*listed(controllers, loading, CONTROLLER), *listed(extensions, watching, EXTENSION)]
