"""The page about the command line, and every command in a code block, fit the commands."""

import inspect
import re
import shlex

import click
import pytest
from commands import every_command
from pages import blocks, read, table

from kcm_host.cli.commands import kcm_host

PAGE = read("docs/command-line.md")
CALL = re.compile(r"(?:^|[\s/$(;])kcm-host ([^#\n;&|>)\"]+)")


COMMANDS = {
    " ".join(path): command
    for path, command in every_command()
    if not isinstance(command, click.Group)
}
CALLS = [
    (f"{block}-{number}", call.strip())
    for block in blocks("sh", "bash")
    for number, call in enumerate(CALL.findall(block.text), 1)
]


def called(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that these words call, and the words that are left."""
    command: click.Command = kcm_host
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]!r}"
        command, words = found, words[1:]
    return command, words


def test_every_command_is_documented() -> None:
    """The first table has all commands, and no other."""
    rows = [cells[0].strip("`").split() for cells in table(PAGE.partition("## ")[0])]
    named = {
        " ".join(word for word in row[1:] if word.islower()) for row in rows if "--" not in row[1]
    }
    assert named == COMMANDS.keys()


def test_every_option_is_documented() -> None:
    """The second table has all options, and no other."""
    part = PAGE.partition("## Options")[2].partition("## ")[0]
    documented = set(re.findall(r"`(-[-\w]+)", " ".join(cells[0] for cells in table(part))))
    options = {"-h", "--help"}
    for command in COMMANDS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                options.update(parameter.opts)
    assert documented == options


@pytest.mark.parametrize(("where", "call"), CALLS, ids=[where for where, _ in CALLS])
def test_commands_in_pages_can_be_typed(where: str, call: str) -> None:
    """Commands and options that a reader copies exist."""
    command, rest = called(shlex.split(call))
    options = {name for parameter in command.params for name in parameter.opts} | {"-h", "--help"}
    for word in rest:
        assert not word.startswith("-") or word in options | {"--version"}, f"{where}: {word}"


def test_pages_show_commands() -> None:
    """The check above has something to check."""
    assert {"run", "check"} <= {call.split()[0] for _, call in CALLS}


def test_exit_codes_are_listed() -> None:
    """The codes of `run --help` are those of the page."""
    codes = re.findall(r"^  (\d+) ", inspect.cleandoc(str(COMMANDS["run"].help)), re.MULTILINE)
    part = PAGE.partition("## Exit codes")[2].partition("## ")[0]
    assert [cells[0] for cells in table(part)] == codes == ["0", "1", "2", "130"]
