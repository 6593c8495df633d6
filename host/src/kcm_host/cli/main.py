"""The command `kcm-host` and its verbs."""

import gc
from importlib import import_module
from typing import Any

import click

from kcm_host import __version__

# What the verbs import is no garbage: the collections in between were a fifth of every start.
# The host switches them on again when its first objects are in.
gc.disable()

VERBS = {
    "run": "kcm_host.cli.run:run",
    "check": "kcm_host.cli.check:check",
    "plugins": "kcm_host.cli.plugins:plugins",
    "config": "kcm_host.cli.config:config",
    "completion": "kcm_host.cli.completion:completion",
}


class Verbs(click.Group):
    """Imports a verb when it is used: `run` shall not pay for what lists tables."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the verbs in the order in which a newcomer meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give one verb."""
        if cmd_name not in VERBS:
            return None
        module, attribute = VERBS[cmd_name].split(":")
        command: Any = getattr(import_module(module), attribute)
        return command if isinstance(command, click.Command) else None


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kcm-host")
def main() -> None:
    """
    Run Kubernetes control loops that ship as plugins.

    Install the controllers you want (pip install kcm-host-ttl), name them in a config file, and
    start them:

    \b
        # kcm-host.yaml
        controllers:
          ttl: {}

    \b
        kcm-host check -c kcm-host.yaml
        kcm-host run -c kcm-host.yaml
    """


if __name__ == "__main__":
    main()
