"""Completion scripts really complete: in a real bash, and by the protocol of all three shells."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from host.cli.conftest import Command

WORDS = {
    "verbs": (["p"], ["plugins"]),
    "verbs of a group": (["plugins", ""], ["info", "list"]),
    "names of plugins": (["plugins", "info", "tt"], ["ttl"]),
    "options": (["run", "--log"], ["--log-level", "--log-format"]),
    "choices": (["run", "--log-format", ""], ["text", "json"]),
    "root options": (["--v"], ["--version"]),
    "nothing": (["frobnicate", "x"], []),
}
ASK = """
eval "$(kcm-host completion bash)"
complete -p kcm-host >&2
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); COMPREPLY=()
_kcm_host_completion kcm-host
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def on_path(tmp_path: Path, command: Command) -> dict[str, str]:
    """Put a `kcm-host` of this interpreter on the PATH, and return the variables."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "kcm-host"
    script.write_text(f"#!{sys.executable}\nfrom kcm_host.cli.main import main\nmain()\n")
    script.chmod(0o755)
    variables = command.variables()
    return {**variables, "PATH": f"{folder}:{variables['PATH']}"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("typed", "offered"), WORDS.values(), ids=WORDS)
def test_bash_completes(on_path: dict[str, str], typed: list[str], offered: list[str]) -> None:
    """The script registers itself, and Tab completes commands and options."""
    words = " ".join(json.dumps(word) for word in ["kcm-host", *typed])
    ended = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(words=words)],
        env=on_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "-F _kcm_host_completion kcm-host" in ended.stderr
    assert ended.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_their_protocol(on_path: dict[str, str], shell: str) -> None:
    """The variables that the scripts of zsh and fish set are answered with the words."""
    script = subprocess.run(
        ["kcm-host", "completion", shell], env=on_path, capture_output=True, text=True, check=True
    ).stdout
    assert f"_KCM_HOST_COMPLETE={shell}_complete" in script
    words = "kcm-host plugins " if shell == "zsh" else "kcm-host plugins"
    asking = {
        "_KCM_HOST_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "2" if shell == "zsh" else "",
    }
    answer = subprocess.run(
        ["kcm-host"], env={**on_path, **asking}, capture_output=True, text=True, check=True
    ).stdout
    assert {"info", "list"} <= set(answer.replace(",", " ").replace("\t", " ").split())
