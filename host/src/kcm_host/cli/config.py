"""`kcm-host config`: what can be configured, and what is."""

import json

import click

from kcm_host import __version__
from kcm_host.cli.options import BAD_CONFIG, fail, output_option, with_settings
from kcm_host.cli.output import Table, show
from kcm_host.config.loaded import Loaded
from kcm_host.config.problems import ConfigError
from kcm_host.config.rows import rows
from kcm_host.config.schema import schema as json_schema
from kcm_host.loading.finder import find
from kcm_host.loading.loader import load
from kcm_host.loading.roles import CONTROLLER
from kcm_host.supervise.assembly import assemble


@click.group()
def config() -> None:
    """Show what can be configured, and what is."""


@config.command()
def schema() -> None:
    """Print the JSON schema of the config file, with the settings of installed plugins."""
    found = find(CONTROLLER.group)
    loading = load(found, {one.name for one in found}, host_version=__version__)
    models = {name: plugin.settings_model for name, plugin in loading.plugins.items()}
    click.echo(json.dumps(json_schema(models), indent=2))


@config.command("show")
@with_settings
@click.option("--origin", is_flag=True, help="Also show where each value comes from.")
@output_option
def show_config(loaded: Loaded, *, origin: bool, output: str) -> None:
    """Show the settings in force, after file, variables and flags; secrets are masked."""
    try:
        setups = assemble(loaded).setups
    except ConfigError as error:
        fail(error, BAD_CONFIG)
    validated = {one.plugin.name: one.settings for one in setups if one.settings is not None}
    table = Table("path", "value", *(("origin",) if origin else ()))
    for row in rows(loaded, validated):
        value = row.value if output == "json" else json.dumps(row.value)
        table.add(row.path, value, *((str(row.origin),) if origin else ()))
    show(table, output)
