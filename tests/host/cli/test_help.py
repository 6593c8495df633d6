"""The help of every command."""

import click
import pytest
from commands import every_command
from host.cli.conftest import Cli, Command

from kcm_host import __version__
from kcm_host.cli.commands import COMMANDS

BY_PATH = {" ".join(path) or "kcm-host": (path, command) for path, command in every_command()}


@pytest.mark.parametrize(("path", "command"), BY_PATH.values(), ids=BY_PATH)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(
    cli: Cli, path: tuple[str, ...], command: click.Command, flag: str
) -> None:
    """`--help` works everywhere, fits 80 columns, and cuts no sentence short."""
    result = cli(*path, flag)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines[1:] if line.endswith("...")]
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter.name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_agrees_with_their_help(command: str) -> None:
    """The texts that are shown without importing a command are short sentences."""
    assert command in [name for name, *_ in (key.split() for key in BY_PATH)]
    assert COMMANDS[command].endswith(".")
    assert len(COMMANDS[command]) <= 60


def test_help_without_arguments_is_the_help(cli: Cli) -> None:
    """Bare `kcm-host` shows how to begin, as the error it is."""
    result = cli()
    assert result.exit_code == 2
    assert "kcm-host run -c kcm-host.yaml" in result.output


def test_the_version_is_told(cli: Cli) -> None:
    """`--version` names program and version."""
    assert cli("--version").stdout == f"kcm-host, version {__version__}\n"


def test_listing_verbs_imports_none(command: Command) -> None:
    """`--help` and completion answer fast because nothing of the host is imported."""
    command.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    ended = command("--help")
    assert ended.code == 0
    assert "kcm_host.cli.commands" in ended.err
    assert "httptools" not in ended.err
    assert "kcm_host.cli.run" not in ended.err
