"""`python tools/matrix.py lowest|pythons`: the tests without servers in other environments."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MEMBERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["kcm-host-workspace"][
    "members"
]
#: The host with what is optional, so that the bounds of its extras are tried too.
EXTRAS = {"host": "[fast,otlp]"}
GROUP = ("--group", str(ROOT / "pyproject.toml") + ":dev")


def main() -> int:
    """Return 0 when all tests passed, 1 when some failed, 2 for a wrong argument."""
    match sys.argv[1:]:
        case ["lowest"]:
            return _lowest()
        case ["pythons"]:
            return _pythons()
    sys.stderr.write("error: one argument: 'lowest' or 'pythons'\n")
    return 2


def _lowest() -> int:
    python = _environment("lowest", "3.11")
    _install(python, "--resolution", "lowest-direct", *_members())
    # The tools of the tests in their pinned versions, as far as the lowest versions allow it.
    lowest = FOLDER / "lowest.txt"
    lowest.write_text(_uv("pip", "freeze", "--python", str(python), "--exclude-editable"))
    _install(python, "--constraints", str(lowest), *GROUP)
    return _tests("the lowest versions", python)


def _pythons() -> int:
    codes = []
    for version in PYTHONS:
        if not _is_there(version):
            _say(f"Python {version} is not there: left out")
            continue
        python = _environment(f"python{version}", version)
        _install(python, "--constraints", str(ROOT / "constraints.txt"), *GROUP)
        _install(python, "--constraints", str(ROOT / "constraints.txt"), *_members())
        codes.append(_tests(f"Python {version}", python))
    return max(codes, default=1)


def _is_there(version: str) -> bool:
    try:
        _uv("python", "find", "--no-python-downloads", version)
    except subprocess.CalledProcessError:
        return False
    return True


def _environment(name: str, version: str) -> Path:
    """Make an empty environment and return its interpreter."""
    folder = FOLDER / name
    _uv("venv", "--clear", "--seed", "--python", version, str(folder))
    return folder / "bin" / "python"


def _members() -> list[str]:
    return [
        argument
        for member in MEMBERS
        for argument in ("--editable", f"{ROOT / member}{EXTRAS.get(member, '')}")
    ]


def _install(python: Path, *arguments: str) -> None:
    _uv("pip", "install", "--python", str(python), *arguments)


def _tests(what: str, python: Path) -> int:
    _say(f"tests without servers with {what}")
    command = [str(python), "-m", "pytest", "-q", "-p", "without_servers", "-p", "no:cacheprovider"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    code = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
    _say(f"{what}: {'passed' if code == 0 else f'failed ({code})'}")
    return int(code != 0)


def _uv(*arguments: str) -> str:
    command: Sequence[str] = [str(Path(sys.executable).parent / "uv"), "--quiet", *arguments]
    if not Path(command[0]).exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "-c", "constraints.txt"]
        subprocess.run([*pip, "--group", "matrix"], cwd=ROOT, check=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
