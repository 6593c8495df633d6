"""`kcm-host run`."""

import asyncio
import logging
import os
import sys

import click

from kcm_host import __version__
from kcm_host.cli.options import BAD_CONFIG, fail, with_settings
from kcm_host.config.loaded import Loaded
from kcm_host.config.problems import ConfigError
from kcm_host.observe.log import start_logging
from kcm_host.observe.pages import AddressUnusable
from kcm_host.observe.trace import TracingUnavailable
from kcm_host.supervise.assembly import assemble
from kcm_host.supervise.host import Host
from kcm_host.supervise.plan import plan
from kcm_host.wire.problem import ConnectionProblem

log = logging.getLogger(__name__)


@click.command()
@with_settings
def run(loaded: Loaded) -> None:
    """
    Run the controllers of a config file until a signal.

    SIGTERM or Ctrl-C: running syncs may finish, then the host ends. A second signal ends it at
    once.

    \b
    Exit codes: 0 drained; 1 failure, or a sync that did not end in time;
    2 bad config, flags or credentials; 130 second signal.
    """
    settings = loaded.settings
    start_logging(settings.log.level, form=settings.log.format)
    for warning in loaded.warnings:
        log.warning("config", extra={"kv": {"warning": warning}})
    try:
        assembly = assemble(loaded)
        for warning in assembly.warnings:
            log.warning("config", extra={"kv": {"warning": warning}})
        for broken in assembly.quarantined.values():
            log.error("plugin quarantined", extra={"kv": {"problem": str(broken)}})
        if not assembly.setups:
            fail("no controller can run: every enabled plugin is broken", 1)
        whole = plan(settings, assembly, environ=os.environ)
        log.info("kcm-host starts", extra={"kv": {"version": __version__}})
        code = asyncio.run(Host(whole).run())
    except (ConfigError, TracingUnavailable, AddressUnusable) as error:
        fail(error, BAD_CONFIG)
    except ConnectionProblem as problem:
        fail(problem, problem.exit_code)
    sys.exit(code)
