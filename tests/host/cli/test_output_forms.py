"""The same answers for people at a terminal, for pipes, and as JSON."""

import json
import os
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

import pytest
from host.cli.conftest import Cli, Command, WriteFile

OURS = ["clusterrole-aggregation", "resourceclaim", "resourcequota", "servicecidrs", "ttl"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

Terminal = Callable[..., str]


def at_terminal(
    command: Command, *arguments: object, columns: int = 100, stream: str = "stdout"
) -> str:
    """Return the output on a terminal of this width, colours included."""
    ours, theirs = os.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    other = "stderr" if stream == "stdout" else "stdout"
    process = command.start(*arguments, **{stream: theirs, other: subprocess.DEVNULL})
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # Linux says so when the last writer has closed its end
        pass
    finally:
        os.close(ours)
        process.wait(30)
    return seen.decode().replace("\r\n", "\n")


@pytest.fixture
def terminal(command: Command) -> Terminal:
    """Look at a command's output on a terminal: `terminal("plugins", "list", columns=60)`."""
    command.environment["TERM"] = "xterm-256color"
    return lambda *arguments, **options: at_terminal(command, *arguments, **options)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize(
    "arguments", [("plugins", "list"), ("plugins", "info", "ttl")], ids=["list", "info"]
)
def test_terminals_of_any_width_show_whole_words(
    terminal: Terminal, arguments: tuple[str, ...], columns: int
) -> None:
    """No line is wider than the terminal, and names are never broken in the middle."""
    plain = ESCAPE.sub("", terminal(*arguments, columns=columns))
    assert max(len(line.rstrip()) for line in plain.splitlines()) <= columns
    assert "controller" in plain.split()
    assert "ttl" in plain.split()


def test_a_narrow_terminal_gets_facts_and_a_wide_one_a_table(terminal: Terminal) -> None:
    """Below the width of the table each plugin is a list of facts."""
    wide = ESCAPE.sub("", terminal("plugins", "list", columns=100))
    narrow = ESCAPE.sub("", terminal("plugins", "list", columns=50))
    assert wide.startswith("NAME ")
    assert narrow.startswith("name ")
    assert len(re.findall("^name ", narrow, re.MULTILINE)) == len(OURS)


def test_colours_need_a_terminal_and_consent(terminal: Terminal, command: Command) -> None:
    """A terminal gets colours, unless NO_COLOR is set; a pipe gets plain columns."""
    assert "\x1b[32m" in terminal("plugins", "list", columns=100)
    assert terminal("rnu", stream="stderr").startswith("\x1b[31m")
    command.environment["NO_COLOR"] = "1"
    assert "\x1b[32m" not in terminal("plugins", "list", columns=100)
    assert terminal("rnu", stream="stderr").startswith("error: there is no command")
    del command.environment["NO_COLOR"]
    head, *rows = command("plugins", "list").out.splitlines()
    assert head.split() == ["NAME", "ROLE", "STATE", "VERSION", "SUMMARY"]
    assert [row.split()[0] for row in rows] == OURS
    assert "\x1b" not in "".join(rows)


def test_info_as_json_is_one_object(cli: Cli) -> None:
    """A script reads a plugin's facts by name; a list has objects like it."""
    record = json.loads(cli("plugins", "info", "ttl", "-o", "json").stdout)
    listed = json.loads(cli("plugins", "list", "-o", "json").stdout)
    assert [one["name"] for one in listed] == OURS
    assert listed[-1] == record
    assert record["name"] == "ttl"
    assert record["state"] == "ok"
    assert record["entryPoint"] == "kcm_host_ttl:Ttl"
    assert record["hooks"] == ["kcm_info", "kcm_status", "kcm_sync", "kcm_watches", "kcm_writes"]
    assert record["aliases"] == ["ttl-controller"]
    assert record["settings"] == []
    assert record["problem"] is None


def test_check_as_json_says_everything(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile, silent_port: int
) -> None:
    """Server, origin, warnings, controllers and what they may write (F-68); people see the same."""
    file = config(more={"leaderElection": None}, ttl={"workers": 2})
    result = cli("check", "-c", file, "--kubeconfig", kubeconfig(), "-o", "json")
    assert result.exit_code == 0
    assert not result.stderr
    found = json.loads(result.stdout)
    assert found["server"] == f"http://127.0.0.1:{silent_port}"
    assert "kubeconfig" in found["origin"]
    assert "'leaderElection' is left out" in found["warnings"][0]
    (controller,) = found["controllers"]
    assert (controller["name"], controller["state"], controller["workers"]) == ("ttl", "ok", 2)
    assert controller["writes"] == ["patch nodes"]
    assert found["extensions"] == []
    people = cli("check", "-c", file, "--kubeconfig", kubeconfig())
    assert people.stdout.startswith(f"server http://127.0.0.1:{silent_port}, by kubeconfig ")
    assert people.stderr.startswith("warning: 'leaderElection' is left out")


def test_settings_are_shown_with_their_origins(cli: Cli, config: WriteFile) -> None:
    """`config show --origin` shows file and line, variable, flag or default of each value."""
    file = config(ttl={"workers": 2})
    result = cli(
        "config", "show", "-c", file, "--origin", "-o", "json", "--log-level", "debug",
        env={"KCM_HOST_LOG__FORMAT": "json"},
    )  # fmt: skip
    found = {row["path"]: (row["value"], row["origin"]) for row in json.loads(result.stdout)}
    assert found["controllers.ttl.workers"] == (2, f"{file}:1")
    assert found["log.level"] == ("debug", "flag --log-level")
    assert found["log.format"] == ("json", "variable KCM_HOST_LOG__FORMAT")
    assert found["shutdownTimeout"] == ("10s", "default")
    plain = cli("config", "show", "-c", file, env={"KCM_HOST_LOGG__LEVEL": "debug"})
    assert plain.stdout.split()[:2] == ["PATH", "VALUE"]
    assert "warning: variable 'KCM_HOST_LOGG__LEVEL' is no setting" in plain.stderr


def test_the_config_file_may_be_named_by_a_variable(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """KCM_HOST_CONFIG sets the path of the file, and is no setting."""
    env = {"KCM_HOST_CONFIG": str(config())}
    result = cli("check", "--kubeconfig", kubeconfig(), env=env)
    assert result.exit_code == 0
    assert not result.stderr


def test_the_schema_is_json(cli: Cli) -> None:
    """`config schema` has the installed controllers under all their names (H-16)."""
    schema = json.loads(cli("config", "schema").stdout)
    names = schema["properties"]["controllers"]["properties"]
    assert {"ttl", "ttl-controller", "clusterrole-aggregation"} <= set(names)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("plugins", "list"), ("config", "schema"), ("completion", "bash")],
    ids="-".join,
)
def test_a_closed_pipe_is_no_error_to_talk_about(
    command: Command, arguments: tuple[str, ...]
) -> None:
    """Whoever reads only the first line (`| head -1`) gets no complaint."""
    ours, theirs = os.pipe()
    os.close(ours)
    process = command.start(*arguments, stdout=theirs)
    os.close(theirs)
    _, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
@pytest.mark.parametrize("arguments", [("--help",), ("plugins", "list")], ids="-".join)
def test_a_full_disk_is_one_line(command: Command, arguments: tuple[str, ...]) -> None:
    """Output that cannot be written is a failure in one line."""
    with Path("/dev/full").open("w") as full:
        ended = command(*arguments, stdout=full)
    assert ended.code == 1
    assert ended.errors == ["cannot go on: No space left on device"]


def test_a_closed_stdout_is_no_crash(command: Command) -> None:
    """Without any stdout the answer is lost and nothing else happens."""
    ended = command("plugins", "list", preexec_fn=lambda: os.close(1), stdout=None)
    assert ended.code == 0
    assert ended.err == ""
