"""`kcm-host config`: the settings and their schema."""

import json

import click
from pydantic.errors import PydanticUserError

from kcm_host.cli.installed import controller_names, installed
from kcm_host.cli.options import output_option, with_settings
from kcm_host.cli.output import BAD_CONFIG, FAILURE, fail, show_json, show_table, warn
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import Loaded, rows
from kcm_host.config.schema import schema as json_schema
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.runtime.bootstrap import load_plugins


@click.group()
def config() -> None:
    """Show the settings in force or the schema."""


@config.command()
def schema() -> None:
    """
    Print the JSON schema of the config file.

    It holds the settings of every installed controller, so that an editor can complete and check
    the file.
    """
    models = {}
    for info in installed():
        if info.problem:
            # Only a warning: the schema is still right for all the other controllers.
            warn(f"plugin '{info.name}' is broken, so its settings are not known")
        elif info.role == CONTROLLER.name:
            models[info.name] = info.settings_model
    try:
        show_json(json_schema(models, controller_names()))
    except PydanticUserError as error:
        fail(f"the settings of a plugin have no JSON schema: {error.message}", FAILURE)


@config.command("show")
@with_settings
@click.option("--origin", is_flag=True, help="Also show where each value comes from.")
@output_option
def show_config(loaded: Loaded, *, origin: bool, output: str) -> None:
    """
    Show every setting that is in force.

    That is the config file, overlaid with variables and flags, over the defaults. Values that
    look secret are masked.
    """
    try:
        plugins = load_plugins(loaded)
    except ConfigError as error:
        fail(error, BAD_CONFIG, form=loaded.settings.log.format)
    # On stderr, so that the table or the JSON on stdout can be piped.
    for warning in (*loaded.warnings, *plugins.warnings):
        warn(warning, form=loaded.settings.log.format)
    validated = {
        one.plugin.name: one.settings for one in plugins.controllers if one.settings is not None
    }
    workers = {one.plugin.name: one.workers for one in plugins.controllers}
    columns = ("path", "value", *(("origin",) if origin else ()))
    found = [
        dict(zip(columns, (row.path, row.value, str(row.origin)), strict=False))
        for row in rows(loaded, validated, workers)
    ]
    if output == "json":
        show_json(found)
    else:
        show_table([{**row, "value": json.dumps(row["value"])} for row in found], columns)
