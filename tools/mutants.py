"""
`python tools/mutants.py`: are the tests of the decision code worth anything?

Each mutant is one small change of the code; a test that fails kills it. Only tests without a
server take part: a mutant costs them a part of a second, not a minute. mutmut takes the name of a
module from its path, so the sources of all distributions are brought together in one folder first,
one for each part. It stays: the next run tries what survived and what has changed. mutmut makes the
mutants, and `mutant_session.py` tries them.
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
    "store": (
        [
            f"src/kcm_host/informer/{name}.py"
            for name in ("index", "store", "shared_informer", "cache_view")
        ],
        ["tests/host/informer"],
    ),
    "workqueue": (["src/kcm_host/workqueue/*"], ["tests/host/workqueue"]),
    "reflector": (
        ["src/kcm_host/informer/reflector.py"],
        ["tests/host/informer/reflector/test_reflector_decisions.py"],
    ),
    "ttl": (["src/kcm_host_ttl/*"], ["tests/plugins/ttl"]),
    "clusterrole-aggregation": (
        ["src/kcm_host_clusterrole_aggregation/*"],
        ["tests/plugins/clusterrole_aggregation"],
    ),
    "servicecidrs": (["src/kcm_host_servicecidrs/*"], ["tests/plugins/servicecidrs"]),
    "resourceclaim": (["src/kcm_host_resourceclaim/*"], ["tests/plugins/resourceclaim"]),
    "resourcequota": (["src/kcm_host_resourcequota/*"], ["tests/plugins/resourcequota"]),
}
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"
#: Exit codes of the tests of a mutant; every other one means that a test failed.
OUTCOMES = {0: SURVIVED, 33: "no test"} | dict.fromkeys((36, 24, -24, -9, 152, 255), TIMED_OUT)


def main() -> int:
    """Return the exit code of mutmut, or of the table alone."""
    options = _options()
    parts = options.part or list(PARTS)
    for part in [] if options.table else parts:
        folder = _folder(part)
        _gather(folder)
        _configure(part)
        _forget_survivors(folder)
        code = _try(folder, options.children)
        if code:
            return code
    sys.stdout.write(_table(parts))
    return 0


def _folder(part: str) -> Path:
    return FOLDER / part


def _gather(folder: Path) -> None:
    """Bring sources and tests together; files that are as before keep their times."""
    for source in SOURCES:
        _copy(ROOT / source, folder / "src")
    _remove_orphans(folder)
    shutil.rmtree(folder / "tests", ignore_errors=True)
    _copy(ROOT / "tests", folder / "tests")
    for name in ("README.md", "tools/without_servers.py"):
        shutil.copy2(ROOT / name, folder / Path(name).name)


def _remove_orphans(folder: Path) -> None:
    """Remove what has no source any more, with the results of its mutants."""
    roots = [ROOT / source for source in SOURCES]
    sources = {path.relative_to(root) for root in roots for path in root.rglob("*.py")}
    for copies in (folder / "src", folder / "mutants" / "src"):
        copied = {path.relative_to(copies) for path in copies.rglob("*.py")}
        for path in copied - sources:
            for each in (copies / path).parent.glob(f"{path.name}*"):
                each.unlink()


def _copy(source: Path, target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "recorded")
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)


def _forget_survivors(folder: Path) -> None:
    """Have survivors tried again."""
    for file in _metas(folder):
        meta = json.loads(file.read_text())
        codes = meta["exit_code_by_key"]
        meta["exit_code_by_key"] = {
            name: None if code in {0, 2, 33} else code for name, code in codes.items()
        }
        file.write_text(json.dumps(meta, indent=4))


def _configure(part: str) -> None:
    patterns, tests = PARTS[part]
    settings: dict[str, object] = {
        "source_paths": ["src"],
        "only_mutate": patterns,
        "also_copy": ["without_servers.py", "README.md"],
        "pytest_add_cli_args": [
            *("-p", "without_servers", "-p", "no:cacheprovider"),
            *("--hypothesis-profile=mutants", "--hypothesis-seed=0"),
        ],
        "pytest_add_cli_args_test_selection": tests,
    }
    tables: dict[str, dict[str, object]] = {
        "tool.mutmut": settings,
        "tool.pytest.ini_options": {
            "testpaths": ["tests"],
            "addopts": "--strict-markers --import-mode=importlib",
            "pythonpath": ["tests", "src", "."],
            "asyncio_mode": "auto",
            "asyncio_default_fixture_loop_scope": "function",
        },
    }
    text = ""
    for name, table in tables.items():
        text += f"[{name}]\n"
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    (_folder(part) / "pyproject.toml").write_text(text)


def _try(folder: Path, children: int) -> int:
    session = Path(__file__).with_name("mutant_session.py")
    program = [sys.executable, str(session), str(folder), str(children)]
    if sys.stdout.isatty():
        return subprocess.run(program, cwd=folder, check=False).returncode
    log = folder / "mutants.log"
    with log.open("wb") as output:
        done = subprocess.run(program, cwd=folder, stdout=output, stderr=output, check=False)
    if done.returncode:
        sys.stderr.write(f"error: the mutants could not be tried ({done.returncode}); see {log}\n")
    return done.returncode


def _metas(folder: Path) -> list[Path]:
    """Return the files in which mutmut keeps how the tests of each mutant ended."""
    return sorted((folder / "mutants").rglob("*.meta"))


def _results(part: str) -> Iterator[tuple[str, str]]:
    """Return name and outcome of each mutant that was tried."""
    for file in _metas(_folder(part)):
        for name, code in json.loads(file.read_text())["exit_code_by_key"].items():
            if code is not None:
                yield name, OUTCOMES.get(code, KILLED)


def _table(parts: Sequence[str]) -> str:
    """
    Return how many mutants of each part were noticed, then those that were not.

    A mutant with which the tests do not end in time is noticed, too.
    """
    lines = [f"{'part':26} {'mutants':>8} {'killed':>8} {'timed out':>10} {'share':>7}"]
    survivors = []
    for part in parts:
        found = Counter[str]()
        for name, outcome in _results(part):
            found[outcome] += 1
            if outcome not in {KILLED, TIMED_OUT}:
                survivors.append(f"{outcome:9} {name}")
        noticed = found[KILLED] + found[TIMED_OUT]
        share = f"{noticed / found.total():7.1%}" if found else ""
        lines.append(
            f"{part:26} {found.total():8} {found[KILLED]:8} {found[TIMED_OUT]:10} {share:>7}"
        )
    return "\n".join([*lines, "", *survivors]) + "\n"


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
