"""A user's mistake is one line with fact, place and remedy, and exit code 2."""

import socket
from pathlib import Path

import pytest

WRONG_ARGUMENTS = {
    "no config file": (("run",), "no config file is named", "-c FILE"),
    "unknown verb": (("rnu",), "there is no command 'rnu'", "did you mean 'run'?"),
    "unlike any verb": (("zzz",), "there is no command 'zzz'", "check, completion, config"),
    "unknown verb of a group": (("plugins", "lst"), "no such command 'lst'", ""),
    "unknown flag": (("run", "--frobnicate"), "--frobnicate", "see 'kcm-host run --help'"),
    "unknown level": (("run", "--log-level", "loud"), "'loud' is not one of", "--help'"),
    "too many words": (("check", "-c", "f", "g"), "unexpected extra argument (g)", "--help'"),
    "flag without value": (("run", "-c"), "requires an argument", "--help'"),
    "no plugin is named": (("plugins", "info"), "missing argument 'name'", "info --help'"),
    "plugin of nobody": (("plugins", "info", "tlt"), "'tlt'", "did you mean 'ttl'?"),
    "unknown shell": (("completion", "csh"), "'csh' is not one of", "--help'"),
}
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


def one_error(result, code=2):
    """Give the one line on stderr."""
    assert result.exit_code == code, result.output
    assert not result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "fact", "remedy"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS
)
def test_a_wrong_argument_is_one_line(cli, arguments, fact, remedy):
    """What was typed, and where to look, without a page of usage (design 5: exit code 2)."""
    line = one_error(cli(*arguments))
    assert fact.lower() in line.lower()
    assert line.endswith(remedy) or remedy in line


@pytest.mark.parametrize("verb", [("run",), ("check",), ("config", "show")], ids="-".join)
@pytest.mark.parametrize(("content", "fact", "remedy"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_config_file_is_one_line(cli, tmp_path: Path, verb, content, fact, remedy):
    """Every verb that takes the file names it, what is wrong there, and what to do (design 7)."""
    path = tmp_path / "kcm-host.yaml"
    if content is not None:
        path.write_bytes(content)
    line = one_error(cli(*verb, "-c", path))
    assert str(path) in line
    assert fact in line
    assert remedy in line


def test_a_folder_is_no_config_file(cli, tmp_path: Path):
    """A folder is named as one (design 7)."""
    line = one_error(cli("run", "-c", tmp_path))
    assert line == f"error: {tmp_path}: this is a directory; name a file inside it"


@pytest.mark.parametrize(("text", "fact", "remedy"), WRONG_OVERRIDES.values(), ids=WRONG_OVERRIDES)
def test_a_wrong_override_is_one_line(cli, config, text, fact, remedy):
    """The flag is the place (design 7)."""
    line = one_error(cli("check", "-c", config(), "--set", text))
    assert line.startswith(f"error: flag --set {text.partition('=')[0]}: ")
    assert fact in line
    assert line.endswith(remedy) or remedy in line


def test_every_mistake_is_told_at_once(cli, config):
    """Several problems are a line each, so that one edit mends them all (design 7)."""
    result = cli("check", "-c", config(), "--set", "logg=1", "--set", "http.bind=x")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize(
    ("user", "fact", "remedy"), WRONG_KUBECONFIGS.values(), ids=WRONG_KUBECONFIGS
)
def test_an_unusable_kubeconfig_is_one_line(cli, config, kubeconfig, verb, user, fact, remedy):
    """Credentials that cannot be had are found before anything is started (design 5)."""
    server = {"server": "https://127.0.0.1:1"}
    result = cli(verb, "-c", config(), "--kubeconfig", kubeconfig(user, **server))
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert fact in line
    assert remedy in line
    assert "Traceback" not in result.stderr


def test_a_missing_kubeconfig_is_one_line(cli, config):
    """The file is named, and the flag to name another (design 5)."""
    line = one_error(cli("check", "-c", config(), "--kubeconfig", "nowhere"))
    assert "'nowhere'" in line
    assert "--kubeconfig" in line


def test_no_way_to_a_server_is_one_line(cli, config):
    """Without any kubeconfig the places that were tried are listed (design 7)."""
    line = one_error(cli("check", "-c", config()))
    assert "$KUBECONFIG is not set" in line
    assert line.endswith("name one with --kubeconfig")


def test_a_server_out_of_reach_is_one_line(command, config, kubeconfig, silent_port):
    """After `startTimeout` the host gives up with the address and the cause (H-41, design 5)."""
    ended = command("run", "-c", config(), "--kubeconfig", kubeconfig(), "--log-level", "error")
    assert ended.code == 1
    (line,) = ended.errors
    assert f"http://127.0.0.1:{silent_port}" in line
    assert "connection refused" in line


def test_a_port_in_use_is_one_line(command, config, kubeconfig):
    """The config file is right, the machine refuses: a failure, told with key and remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = command(
            "run", "-c", config(), "--kubeconfig", kubeconfig(), "--set", f"http.bind={bind}",
            "--log-level", "error",
        )  # fmt: skip
    assert ended.code == 1
    (line,) = ended.errors
    assert f"'{bind}': it is in use" in line
    assert "set http.bind" in line


@pytest.mark.parametrize("verb", ["run", "check"])
def test_traces_without_their_package_are_one_line(command, site, config, kubeconfig, verb):
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
