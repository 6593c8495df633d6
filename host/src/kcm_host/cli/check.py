"""`kcm-host check`."""

import os
import sys

import click

from kcm_host.cli.options import BAD_CONFIG, fail, output_option, with_settings
from kcm_host.cli.output import Table, show
from kcm_host.config.loaded import Loaded
from kcm_host.config.problems import ConfigError
from kcm_host.supervise.assembly import Assembly, assemble
from kcm_host.wire.connection import connect
from kcm_host.wire.problem import ConnectionProblem


@click.command()
@with_settings
@output_option
def check(loaded: Loaded, output: str) -> None:
    """
    Check a config file, its plugins and the kubeconfig, without talking to the server.

    Exit codes: 0 everything can run; 1 a plugin is broken; 2 bad config or kubeconfig.
    """
    try:
        assembly = assemble(loaded)
        connection = connect(loaded.settings.kubeconfig, environ=os.environ)
    except ConfigError as error:
        fail(error, BAD_CONFIG)
    except ConnectionProblem as problem:
        fail(problem, problem.exit_code)
    for warning in (*loaded.warnings, *assembly.warnings):
        click.secho(f"warning: {warning}", fg="yellow", err=True)
    if output == "table":
        click.echo(f"server {connection.base_url} by {connection.origin}")
    show(_table(assembly), output)
    sys.exit(1 if assembly.quarantined else 0)


def _table(assembly: Assembly) -> Table:
    table = Table("controller", "state", "version", "workers", "problem")
    for setup in assembly.setups:
        plugin = setup.plugin
        table.add(plugin.name, "ok", plugin.version, setup.workers, "")
    for broken in assembly.quarantined.values():
        problem = f"{broken.reason}; {broken.remedy}"
        table.add(broken.name, "quarantined", broken.version, None, problem)
    return table
