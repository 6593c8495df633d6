"""The command `kcm-host`: its subcommands, imported when they are used, and completion."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from kcm_host import __version__
from kcm_host.cli.output import colours, exit_on_error
from kcm_host.config.errors import did_you_mean
from kcm_host.observe.logging import Form

#: In the order of `--help`, with the help text of each.
COMMANDS = {
    "run": "Run controllers until a signal.",
    "check": "See whether a config file could run.",
    "plugins": "List installed plugins or show one.",
    "config": "Show the settings in force or the schema.",
    "completion": "Print a completion script for your shell.",
}


class LazyCommands(click.Group):
    """Imports a command when it is used, because imports are most of the time of a start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; that of another module has the name of the module."""
        if cmd_name in self.commands or cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: Any = getattr(import_module(f"kcm_host.cli.{cmd_name}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these arguments; raise an error with the closest name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            advice = did_you_mean(name, list(COMMANDS))
            raise click.UsageError(f"there is no command '{name}'; {advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them: the shell waits for this."""
        commands = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit; each error is one line without a traceback."""
        given = args[0] if args else extra.get("args")
        arguments = sys.argv[1:] if given is None else given
        with exit_on_error(lambda: _form(arguments)):
            # `standalone_mode` off: click would print usage and error in several lines, which JSON
            # logs must not have (F-88).
            code = super().main(*args, **{"color": colours(), **extra, "standalone_mode": False})
        sys.exit(code if isinstance(code, int) else 0)


def _form(arguments: Sequence[str]) -> Form:
    # Imported for errors only: completion and help must be fast.
    found: Form = import_module("kcm_host.cli.options").log_form(arguments, os.environ)
    return found


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kcm-host")
def kcm_host() -> None:
    """
    Run Kubernetes control loops (controllers) that are installed as plugins.

    Install the controllers you want, name them in a config file, check it, and run it:

    \b
        pip install kcm-host-ttl
    \b
        # kcm-host.yaml
        controllers:
          ttl: {}
        leaderElection: {enabled: false}
    \b
        kcm-host check -c kcm-host.yaml
        kcm-host run -c kcm-host.yaml

    "kcm-host COMMAND --help" shows more about each command.
    """


@kcm_host.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """
    Print a completion script for your shell.

    \b
    bash, in ~/.bashrc:
      eval "$(kcm-host completion bash)"
    zsh, in ~/.zshrc, after compinit:
      eval "$(kcm-host completion zsh)"
    fish, once:
      kcm-host completion fish > ~/.config/fish/completions/kcm-host.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for '{shell}'", context)
    root = context.find_root()
    click.echo(kind(root.command, {}, "kcm-host", "_KCM_HOST_COMPLETE").source())
