"""A user's mistake is one line with fact, place and remedy, and exit code 2."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cases import cases
from click.testing import Result
from host.cli.conftest import Cli, Command, WriteFile
from plugin_site import PluginSite

#: What is typed, a fact that is told, and what the line also says.
WRONG_ARGUMENTS = cases("""
run
-> no config file is named ... KCM_HOST_CONTROLLERS='{ttl: {}}'
rnu
-> there is no command 'rnu' ... did you mean 'run'?
zzz
-> there is no command 'zzz' ... check, completion, config
plugins lst
-> no such command 'lst'
run --frobnicate
-> --frobnicate ... see 'kcm-host run --help'
run --log-level loud
-> 'loud' is not one of ... --help'
check -c f g
-> unexpected extra argument (g) ... --help'
run -c
-> requires an argument ... --help'
plugins info
-> missing argument 'name' ... info --help'
plugins info tlt
-> 'tlt' ... did you mean 'ttl'?
completion
-> missing argument '{bash|zsh|fish}'. Choose from: bash ... --help'
completion csh
-> 'csh' is not one of ... --help'
""")
WRONG_FILES = {
    "missing": (None, "there is no such file", "check the path"),
    "binary": (b"\x7fELF\xff\x00", "not UTF-8", "save the file as UTF-8"),
    "empty": (b"", "the file is empty", "write for example"),
    "not yaml": (b"a: b: c", "not valid YAML", "quote the text"),
    "a list": (b"[1]", "must hold a mapping, found a list", "write for example"),
    "unknown key": (b"controllers: {ttl: {}}\nlogg: {}", ":2:1: logg: unknown key", "'log'"),
}
WRONG_OVERRIDES = {
    "no value": ("controllers.ttl.workers", "'--set' takes path=value", "write for example"),
    "unknown key": ("controllers.ttl.wrokers=2", "unknown key 'wrokers'", "'workers'?"),
    "wrong type": ("controllers.ttl.workers=two", "must be a whole number, found 'two'", ""),
    "unreadable list": ("controllers={", "controllers: must be a mapping", ""),
    "election": ("leaderElection.enabled=true", "not built yet", "run one replica"),
}
WRONG_KUBECONFIGS = {
    "no credentials": ({}, "holds no credentials", "give it a token"),
    "missing token file": ({"tokenFile": "/nowhere/token"}, "/nowhere/token", ""),
    "missing key": ({"client-key": "/no", "client-certificate": "/no"}, "/no", ""),
}


def one_error(result: Result, code: int = 2) -> str:
    """Return the one line on stderr."""
    assert result.exit_code == code, result.output
    assert not result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(("arguments", "told"), WRONG_ARGUMENTS.items(), ids=WRONG_ARGUMENTS)
def test_a_wrong_argument_is_one_line(cli: Cli, arguments: str, told: str) -> None:
    """One line has the argument and the help command, without usage (design 5: exit code 2)."""
    line = one_error(cli(*arguments.split()))
    fact, _, remedy = told.partition(" ... ")
    assert fact.lower() in line.lower()
    assert remedy in line


@pytest.mark.parametrize("verb", [("run",), ("check",), ("config", "show")], ids="-".join)
@pytest.mark.parametrize(("content", "fact", "remedy"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_config_file_is_one_line(
    cli: Cli, tmp_path: Path, verb: tuple[str, ...], content: bytes | None, fact: str, remedy: str
) -> None:
    """Every command with a config file reports its place, the fact and the remedy (design 7)."""
    path = tmp_path / "kcm-host.yaml"
    if content is not None:
        path.write_bytes(content)
    line = one_error(cli(*verb, "-c", path))
    assert str(path) in line
    assert fact in line
    assert remedy in line


@pytest.mark.parametrize(("text", "fact", "remedy"), WRONG_OVERRIDES.values(), ids=WRONG_OVERRIDES)
def test_a_wrong_override_is_one_line(
    cli: Cli, config: WriteFile, text: str, fact: str, remedy: str
) -> None:
    """The flag is the place, and each mistake has a line (design 7)."""
    line = one_error(cli("check", "-c", config(), "--set", text))
    assert line.startswith(f"error: flag --set {text.partition('=')[0]}: ")
    assert fact in line
    assert line.endswith(remedy) or remedy in line


JSON_LINES = {
    "by flag": (("run", "--log-format", "json", "--frobnicate"), {}),
    "by flag in one word": (("check", "--log-format=json", "--frobnicate"), {}),
    "by variable": (("check", "--frobnicate"), {"KCM_HOST_LOG__FORMAT": "json"}),
    "wrong override": (("check", "--log-format", "json", "--set", "oops"), {}),
    "wrong settings": (("check", "--set", "x=1"), {"KCM_HOST_LOG__FORMAT": "json"}),
    "no such file": (("config", "show", "-c", "nowhere", "--log-format", "json"), {}),
}


@pytest.mark.parametrize(("arguments", "env"), JSON_LINES.values(), ids=JSON_LINES)
def test_under_json_logging_mistakes_are_json(
    cli: Cli, arguments: tuple[str, ...], env: dict[str, str]
) -> None:
    """Whoever reads JSON lines reads the last error too, also that of a wrong flag (F-88)."""
    ended = cli(*arguments, env=env)
    assert ended.exit_code == 2
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert lines
    assert all(line["error"] and line["code"] == 2 for line in lines)


def test_a_flag_wins_over_the_variable_for_mistakes_too(cli: Cli) -> None:
    """`--log-format text` takes precedence over a variable (F-88)."""
    env = {"KCM_HOST_LOG__FORMAT": "json"}
    one_error(cli("run", "--log-format", "text", "--frobnicate", env=env))


def test_a_file_that_asks_for_json_gets_its_mistakes_so(cli: Cli, tmp_path: Path) -> None:
    """Mistakes in a file and warnings about one follow its own log format (F-88)."""
    path = tmp_path / "kcm-host.yaml"
    path.write_text("controllers: {ttl: {}}\nlog: {format: json}\n")
    warned = cli("check", "--offline", "-c", path)
    assert warned.exit_code == 0
    assert "'leaderElection' is left out" in json.loads(warned.stderr)["warning"]
    path.write_text("controllers: {ttl: {}}\nlog: {format: json}\nlogg: 1\n")
    assert "logg: unknown key" in json.loads(cli("check", "-c", path).stderr)["error"]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user who may read little; only root has to change for that."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-c", "{}"), "error: {}: the file may not be read; check its owner and mode"),
        (
            ("--kubeconfig", "{}", "--set", "controllers.ttl={{}}"),
            (
                "error: kubeconfig '{}' cannot be read: Permission denied; name a readable file "
                "with --kubeconfig or $KUBECONFIG"
            ),
        ),
    ],
    ids=["config file", "kubeconfig"],
)
def test_a_file_of_somebody_else_is_named(cli: Cli, arguments: tuple[str, ...], told: str) -> None:
    """The error of an unreadable file has fact, place and remedy (F-88)."""
    cli("check", "--offline", "--set", "controllers.ttl={}")  # nobody can import nothing more
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "file"
        path.write_text("controllers: {ttl: {}}")
        path.chmod(0)
        filled = [argument.format(path) for argument in arguments]
        with as_nobody():
            ended = cli("check", *filled)
    assert ended.exit_code == 2
    assert ended.stderr.splitlines()[-1] == told.format(path)


def test_a_kubeconfig_with_a_section_twice_is_one_line(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """Of two lists of users one would be lost, so both lines are named (F-88)."""
    path = kubeconfig()
    content = json.loads(path.read_text())
    path.write_text("\n".join(f"{key}: {json.dumps(part)}" for key, part in content.items()))
    assert cli("check", "-c", config(), "--kubeconfig", path).exit_code == 0
    with path.open("a") as file:
        file.write("\nusers: []\n")
    line = one_error(cli("check", "-c", config(), "--kubeconfig", path))
    assert line == (
        f"error: kubeconfig '{path}' has 'users' at line 2 and again at line 5; "
        f"put all of it into one"
    )


def test_a_closed_stderr_is_told_on_stdout(
    command: Command, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """Without stderr the host runs, with a warning that nothing is logged (F-88)."""
    ended = command(
        "run", "-c", config(), "--kubeconfig", kubeconfig(),
        preexec_fn=lambda: os.close(2), stderr=None,
    )  # fmt: skip
    assert ended.code == 1  # the server is out of reach
    assert ended.out == "warning: stderr is closed, so nothing is logged; give it a file: 2>FILE\n"


def test_variables_and_stdin_are_a_configuration(command: Command, config: WriteFile) -> None:
    """No file is needed when variables enable controllers; `-` reads one from stdin (F-85)."""
    command.environment["KCM_HOST_CONTROLLERS"] = "{ttl: {}}"
    by_variable = command("check", "--offline", "-o", "json")
    assert [one["name"] for one in json.loads(by_variable.out)["controllers"]] == ["ttl"]
    del command.environment["KCM_HOST_CONTROLLERS"]
    with config(ttl={"workers": 7}).open() as file:
        by_stdin = command("check", "-c", "-", "--offline", "-o", "json", stdin=file)
    assert json.loads(by_stdin.out)["controllers"][0]["workers"] == 7


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize(
    ("user", "fact", "remedy"), WRONG_KUBECONFIGS.values(), ids=WRONG_KUBECONFIGS
)
def test_an_unusable_kubeconfig_is_one_line(
    cli: Cli,
    config: WriteFile,
    kubeconfig: WriteFile,
    verb: str,
    user: dict[str, Any],
    fact: str,
    remedy: str,
) -> None:
    """Credentials that cannot be had are found before anything is started (design 5)."""
    server = {"server": "https://127.0.0.1:1"}
    result = cli(verb, "-c", config(), "--kubeconfig", kubeconfig(user, **server))
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert fact in line
    assert remedy in line
    assert "Traceback" not in result.stderr


def test_a_server_out_of_reach_is_one_line(
    command: Command, config: WriteFile, kubeconfig: WriteFile, silent_port: int
) -> None:
    """After `startTimeout` the error has the address and the cause (H-41, design 5)."""
    ended = command("run", "-c", config(), "--kubeconfig", kubeconfig(), "--log-level", "error")
    assert ended.code == 1
    (line,) = ended.errors
    assert f"http://127.0.0.1:{silent_port}" in line
    assert "connection refused" in line


@pytest.mark.parametrize("verb", ["run", "check"])
def test_traces_without_their_package_are_one_line(
    command: Command, site: PluginSite, config: WriteFile, kubeconfig: WriteFile, verb: str
) -> None:
    """The extra to install is named, by `check` already (design 7)."""
    site.module(
        "sitecustomize",
        """
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("opentelemetry.exporter"):
                    raise ModuleNotFoundError(f"No module named '{name}'", name=name)

        sys.meta_path.insert(0, Absent())
        """,
    )
    file = config(more={"telemetry": {"traces": {"exporter": "otlp"}}})
    ended = command(verb, "-c", file, "--kubeconfig", kubeconfig())
    assert ended.code == 2
    (line,) = ended.errors
    assert "pip install 'kcm-host[otlp]'" in line
