"""`kcm-host run`."""

import logging
import os
import sys

import click

from kcm_host import __version__
from kcm_host.cli.options import with_settings
from kcm_host.cli.output import BAD_CONFIG, FAILURE, fail
from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import Loaded
from kcm_host.observe.endpoints import AddressUnusable
from kcm_host.observe.logging import log_warnings, start_logging
from kcm_host.observe.tracing import TracingUnavailable
from kcm_host.plugins.quarantine import BrokenPlugin, Quarantined
from kcm_host.runtime.bootstrap import LoadedPlugins, bootstrap, load_plugins
from kcm_host.runtime.host import Host
from kcm_host.runtime.process import run_to_exit

log = logging.getLogger(__name__)


@click.command()
@with_settings
def run(loaded: Loaded) -> None:
    """
    Run the controllers of a config file until a signal.

    The host logs to stderr and serves /livez, /readyz, /status and /metrics where "http.bind" of
    the config file says (127.0.0.1:10270).

    SIGTERM, SIGHUP or Ctrl-C: running syncs may finish, then the host ends. A second signal ends
    it at once.

    \b
    Exit codes:
      0    ended in order after a signal
      1    failure, or a sync that did not end in time
      2    bad config file, flags or credentials
      130  ended at once by a second signal
    """
    settings = loaded.settings
    form = settings.log.format
    start_logging(settings.log.level, form=form)
    log_warnings()
    # To stdout, because it is the only stream that is left to say it (F-88).
    if sys.__stderr__ is None:
        click.echo("warning: stderr is closed, so nothing is logged; give it a file: 2>FILE")
    _warn(loaded.warnings)
    try:
        # Before the connection: a mistake in the configuration is found without a server.
        plugins = load_plugins(loaded)
        _report(plugins)
        if not plugins.controllers:
            fail("no controller can run, every one is broken; see above", FAILURE, form=form)
        connection = connect(settings.kubeconfig, environ=os.environ)
        _warn(connection.warnings, event="connection")
        host = Host(bootstrap(settings, plugins, connection=connection))
        log.info("kcm-host starting", extra={"kv": {"version": __version__}})
        code = run_to_exit(host.run())
    except (ConfigError, TracingUnavailable) as error:
        fail(error, BAD_CONFIG, form=form)
    except AddressUnusable as error:
        fail(error, FAILURE, form=form)
    except ConnectionProblem as problem:
        fail(problem, problem.exit_code, form=form)
    sys.exit(code)


def _report(plugins: LoadedPlugins) -> None:
    _warn(plugins.warnings)
    for broken in plugins.quarantined.values():
        log.error("plugin quarantined", extra={"kv": _facts(broken)}, exc_info=_with_stack(broken))


def _warn(warnings: tuple[str, ...], *, event: str = "config") -> None:
    for warning in warnings:
        log.warning(event, extra={"kv": {"warning": warning}})


def _facts(broken: Quarantined) -> dict[str, str]:
    return {
        "plugin": broken.name,
        "distribution": f"{broken.distribution} {broken.version}",
        "stage": str(broken.stage),
        "error": broken.reason,
        "remedy": broken.remedy,
    }


def _with_stack(broken: Quarantined) -> BrokenPlugin:
    """Return an exception with the plugin's own one as a note, logged at level debug."""
    error = BrokenPlugin(broken)
    if broken.traceback:
        error.add_note(broken.traceback)
    return error
