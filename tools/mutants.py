"""
`python tools/mutants.py`: are the tests of the decision code worth anything?

Each mutant is one small change of the code; a test that fails kills it. Only tests without a
server take part: a mutant costs them a second, not a minute. mutmut takes a name of a module from
its path, so the sources of all distributions are brought together in one folder first; it stays,
and the next run tries only what has changed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "mutants"
SOURCES = (
    "host/src",
    "testing/src",
    *(f"plugins/{each.name}/src" for each in (ROOT / "plugins").iterdir()),
)
#: The code that decides something, and the tests that should notice when it decides otherwise.
PARTS = {
    "store": (["src/kcm_host/store/*"], ["tests/host/store", "tests/host/wire", "tests/fuzz"]),
    "work": (["src/kcm_host/work/*"], ["tests/host/work", "tests/host/sync"]),
    "wire/reflector": (["src/kcm_host/wire/reflector.py"], ["tests/host/wire", "tests/fuzz"]),
    "ttl": (["src/kcm_host_ttl/*"], ["tests/plugins/ttl"]),
    "clusterrole-aggregation": (
        ["src/kcm_host_clusterrole_aggregation/*"],
        ["tests/plugins/clusterrole_aggregation"],
    ),
    "servicecidrs": (["src/kcm_host_servicecidrs/*"], ["tests/plugins/servicecidrs"]),
    "resourceclaim": (["src/kcm_host_resourceclaim/*"], ["tests/plugins/resourceclaim"]),
    "resourcequota": (["src/kcm_host_resourcequota/*"], ["tests/plugins/resourcequota"]),
}
#: How many random inputs a property test tries for one mutant.
EXAMPLES = "20"
SURVIVED, KILLED = "survived", "killed"


def main() -> int:
    """Return the exit code of mutmut, or of the table alone."""
    options = _options()
    parts = options.part or list(PARTS)
    if not options.table:
        _gather()
        _configure(parts)
        code = _mutmut("run", "--max-children", str(options.children))
        if code:
            return code
    sys.stdout.write(_table(parts))
    return 0


def _gather() -> None:
    """Bring sources and tests together; files that are as before keep their times."""
    for source in SOURCES:
        _copy(ROOT / source, FOLDER / "src")
    _copy(ROOT / "tests", FOLDER / "tests")
    for name in ("README.md", "tools/without_servers.py"):
        shutil.copy2(ROOT / name, FOLDER / Path(name).name)


def _copy(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "recorded")
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)


def _configure(parts: Sequence[str]) -> None:
    patterns = [pattern for part in parts for pattern in PARTS[part][0]]
    settings = {
        "source_paths": ["src"],
        "only_mutate": patterns,
        "also_copy": ["without_servers.py", "README.md"],
        "pytest_add_cli_args": ["-p", "without_servers", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": sorted({t for part in parts for t in PARTS[part][1]}),
        "use_git_change_detection": False,
    }
    tables: dict[str, dict[str, object]] = {
        "tool.mutmut": settings,
        "tool.pytest.ini_options": {
            "testpaths": ["tests"],
            "addopts": "-ra --strict-markers --import-mode=importlib",
            "pythonpath": ["tests", "src", "."],
            "asyncio_mode": "auto",
            "asyncio_default_fixture_loop_scope": "function",
        },
    }
    text = ""
    for name, table in tables.items():
        text += f"[{name}]\n"
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    (FOLDER / "pyproject.toml").write_text(text)


def _mutmut(*arguments: str) -> int:
    environment = {**os.environ, "FUZZ_EXAMPLES": EXAMPLES}
    program = [str(Path(sys.executable).parent / "mutmut"), *arguments]
    if sys.stdout.isatty():
        return subprocess.run(program, cwd=FOLDER, env=environment, check=False).returncode
    # Its progress is drawn on one line again and again: for terminals alone.
    log = FOLDER / "mutmut.log"
    with log.open("wb") as output:
        done = subprocess.run(
            program, cwd=FOLDER, env=environment, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        sys.stderr.write(f"error: mutmut ended with {done.returncode}; see {log}\n")
    return done.returncode


def _results() -> Iterator[tuple[str, int | None]]:
    """Return name and exit code of the tests of each mutant."""
    for file in sorted((FOLDER / "mutants").rglob("*.meta")):
        yield from json.loads(file.read_text())["exit_code_by_key"].items()


def _table(parts: Sequence[str]) -> str:
    """Return how many mutants of each part were killed, then those that survived."""
    counts: dict[str, Counter[str]] = {part: Counter() for part in parts}
    survivors = []
    for name, code in _results():
        part = next((each for each in parts if _belongs(name, each)), None)
        if part is None or code is None:
            continue
        outcome = {0: SURVIVED, 33: "no test"}.get(code, KILLED)
        counts[part][outcome] += 1
        if outcome != KILLED:
            survivors.append(f"{outcome:9} {name}")
    lines = [f"{'part':26} {'mutants':>8} {'killed':>8} {'share':>7}"]
    for part, found in counts.items():
        share = f"{found[KILLED] / found.total():7.1%}" if found else ""
        lines.append(f"{part:26} {found.total():8} {found[KILLED]:8} {share:>7}")
    return "\n".join([*lines, "", *survivors]) + "\n"


def _belongs(mutant: str, part: str) -> bool:
    prefixes = [
        pattern.removeprefix("src/").rstrip("*").removesuffix(".py") for pattern in PARTS[part][0]
    ]
    return any(mutant.startswith(prefix.replace("/", ".")) for prefix in prefixes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Change the code a little and see which tests notice."
    )
    parser.add_argument("--part", action="append", choices=list(PARTS), help="may be given again")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--table", action="store_true", help="only show what the last run found")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
