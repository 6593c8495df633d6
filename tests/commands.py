"""The commands of the host, as the tests of help and pages go through them."""

from collections.abc import Iterator

import click

from kcm_host.cli.commands import kcm_host


def every_command(
    command: click.Command | None = kcm_host, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command and group with the words that call it."""
    assert command is not None
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every_command(command.get_command(context, name), (*path, name))
