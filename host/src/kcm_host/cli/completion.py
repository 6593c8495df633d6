"""`kcm-host completion`: the completion script for a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
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
