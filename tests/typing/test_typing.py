"""Type checkers accept what an author writes, and refuse the usual mistakes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages import ROOT

HERE = Path(__file__).parent


def mypy(file: Path, cache: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each error of strict mypy."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--show-error-codes"]
    options: list[str | Path] = [
        "--cache-dir",
        cache,
        "--config-file",
        ROOT / "pyproject.toml",
        file,
    ]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    for line in ended.stdout.splitlines():
        if found := re.match(r".*?:(\d+): error: (.*)", line):
            yield int(found[1]), found[2]


def pyright(file: Path, cache: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each error of pyright."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    ended = subprocess.run([*command, file], capture_output=True, text=True, check=False, cwd=cache)
    result = json.loads(ended.stdout)
    assert result["summary"]["filesAnalyzed"] == 1, ended.stdout
    for each in result["generalDiagnostics"]:
        if each["severity"] == "error":
            yield each["range"]["start"]["line"] + 1, each["message"]


@pytest.mark.parametrize("check", [mypy, pyright])
def test_an_author_sees_no_error(
    check: Callable[[Path, Path], Iterator[tuple[int, str]]], tmp_path: Path
) -> None:
    """Every hook, every constructor and the helpers type-check strictly."""
    assert list(check(HERE / "accepted.py", tmp_path)) == []


@pytest.mark.parametrize("check", [mypy, pyright])
def test_mistakes_are_refused(
    check: Callable[[Path, Path], Iterator[tuple[int, str]]], tmp_path: Path
) -> None:
    """Exactly the marked lines have errors."""
    file = HERE / "refused.py"
    lines = file.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    errors = dict(check(file, tmp_path))
    assert errors.keys() == marked, [lines[one - 1] for one in errors.keys() ^ marked]
