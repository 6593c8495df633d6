"""`kcm-host check`."""

import os
import sys

import click

from kcm_host.cli.options import output_option, with_settings
from kcm_host.cli.output import BAD_CONFIG, FAILURE, fail, show_json, show_table, warn
from kcm_host.client.auth.connection import Connection, connect
from kcm_host.client.errors import ConnectionProblem
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import Loaded
from kcm_host.observe.logging import printable
from kcm_host.observe.tracing import TracingUnavailable
from kcm_host.runtime.bootstrap import PluginVerdict, load_plugins, plugin_verdicts, started_tracing


@click.command()
@with_settings
@click.option("--offline", is_flag=True, help="Leave the kubeconfig out; none is needed then.")
@output_option
def check(loaded: Loaded, *, offline: bool, output: str) -> None:
    """
    See whether a config file could run: its settings, its plugins, its kubeconfig.

    The API server is not asked, so a wrong address or an expired token is only seen by "run".
    With --offline the kubeconfig is not read either, as in a pipeline that has none.

    \b
    Exit codes:
      0  everything could run
      1  a plugin is broken; the others could run
      2  bad config file, flags or credentials
    """
    settings = loaded.settings
    try:
        plugins = load_plugins(loaded)
        connection = None if offline else connect(settings.kubeconfig, environ=os.environ)
        # Started for its errors: a missing package would otherwise end `run` after `check` has
        # passed.
        tracing = started_tracing(settings.telemetry.traces)
    except (ConfigError, TracingUnavailable) as error:
        fail(error, BAD_CONFIG, form=settings.log.format)
    except ConnectionProblem as problem:
        fail(problem, problem.exit_code, form=settings.log.format)
    tracing.stop(timeout_seconds=1)
    found = [_record(verdict) for verdict in plugin_verdicts(plugins)]
    warnings = [*loaded.warnings, *plugins.warnings, *(connection.warnings if connection else ())]
    if output == "json":
        show_json({**_server(connection), "warnings": warnings, **_by_role(found)})
    else:
        for warning in warnings:
            warn(warning, form=settings.log.format)
        if connection is not None:
            click.echo(printable(f"server {connection.base_url}, by {connection.origin}"))
        show_table(found, ("name", "role", "state", "version", "workers", "problem"))
    sys.exit(FAILURE if plugins.quarantined else 0)


def _server(connection: Connection | None) -> dict[str, str | None]:
    if connection is None:
        return {"server": None, "origin": None}
    return {"server": connection.base_url, "origin": connection.origin}


def _record(verdict: PluginVerdict) -> dict[str, object]:
    broken = verdict.broken
    return {
        "name": verdict.plugin.name,
        "role": verdict.role,
        "state": "quarantined" if broken else "ok",
        "distribution": verdict.plugin.distribution,
        "version": verdict.plugin.version,
        "workers": verdict.workers,
        "writes": sorted(set(map(str, verdict.permissions))),
        "problem": f"{broken.reason}; {broken.remedy}" if broken else None,
    }


def _by_role(found: list[dict[str, object]]) -> dict[str, list[dict[str, object]]]:
    return {
        f"{role}s": [one for one in found if one["role"] == role]
        for role in ("controller", "extension")
    }
