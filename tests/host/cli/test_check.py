"""`kcm-host check` reports the errors of a start, without a cluster."""

import json
from typing import Any

import pytest
from host.cli.conftest import Cli, Command, WriteFile

UNCHECKED = "the certificate of https://127.0.0.1:1 is not checked"
UNENCRYPTED = "credentials travel unencrypted to http://kube.example"
ODD_CLUSTERS = {
    "unchecked": ({"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}, UNCHECKED),
    "unencrypted": ({"server": "http://kube.example"}, UNENCRYPTED),
}
V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(("cluster", "fact"), ODD_CLUSTERS.values(), ids=ODD_CLUSTERS)
def test_check_warns_of_an_unsafe_connection(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile, cluster: dict[str, Any], fact: str
) -> None:
    """The warning has a prefix for people and is one of the warnings of the JSON (F-87)."""
    path = kubeconfig(**cluster)
    shown = cli("check", "-c", config(), "--kubeconfig", path)
    assert shown.exit_code == 0
    (line,) = shown.stderr.splitlines()
    assert line.startswith(f"warning: {fact}")
    assert str(path) in line
    found = cli("check", "-c", config(), "--kubeconfig", path, "-o", "json")
    assert not found.stderr
    assert json.loads(found.stdout)["warnings"] == [line.removeprefix("warning: ")]


def test_run_logs_the_same_warning(
    command: Command, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """A run logs once what `check` warns of (F-87)."""
    path = kubeconfig(server="http://kube.example", **{"proxy-url": "http://127.0.0.1:1"})
    ended = command("run", "-c", config(), "--kubeconfig", path, "--log-format", "json")
    assert ended.code == 1
    lines = [json.loads(line) for line in ended.err.splitlines()]
    (warning,) = [line["warning"] for line in lines if line["event"] == "connection"]
    assert warning.startswith(UNENCRYPTED)


@pytest.mark.parametrize("verb", ["check", "run"])
def test_an_exec_command_that_is_not_there_is_found(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile, verb: str
) -> None:
    """An exec plugin that is not on PATH is an error before anything is started (F-87)."""
    user = {"exec": {"apiVersion": V1, "command": "no-such-plugin", "interactiveMode": "Never"}}
    path = kubeconfig(user, server="https://127.0.0.1:1")
    ended = cli(verb, "-c", config(), "--kubeconfig", path)
    assert ended.exit_code == 2
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("error: exec plugin 'no-such-plugin' of user 'u'")
    assert "is not on PATH" in line


def test_check_offline_needs_no_kubeconfig(cli: Cli, config: WriteFile) -> None:
    """Settings and plugins are checked all the same, as in a pipeline (F-87)."""
    assert cli("check", "-c", config()).exit_code == 2
    shown = cli("check", "-c", config(), "--offline")
    assert shown.exit_code == 0
    assert not shown.stderr
    assert shown.stdout.split()[:3] == ["NAME", "ROLE", "STATE"]
    found = json.loads(cli("check", "-c", config(), "--offline", "-o", "json").stdout)
    assert (found["server"], found["origin"]) == (None, None)
    assert [one["name"] for one in found["controllers"]] == ["ttl"]
    broken = cli("check", "-c", config(resourcequota={"settings": {"x": 1}}), "--offline")
    assert broken.exit_code == 2
    assert "unknown key 'x'" in broken.stderr
