"""
`python tools/mutant_session.py FOLDER CHILDREN`: try the mutants of a folder; see `mutants.py`.

mutmut itself collects the tests anew for every mutant, which takes longer than most of them, and
behind a cache it sees the first caller of a function alone. Here it only makes the mutants: tests
are collected once, each is asked with empty caches which functions it calls, and a mutant is a
fork in which the tests of its function run until one of them fails.
"""

import functools
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SURVIVED, KILLED, NO_TEST, TIMED_OUT = 0, 1, 33, 36
#: Exit codes of a fork that has used up its time.
SIGNALS = frozenset({-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM})
SAVE_EVERY = 50

Results = dict[str, int | None]


def main() -> int:
    """Make the mutants, and try those without a result; return the exit code."""
    folder, children = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir(folder)
    _make_mutants(children)
    settings = importlib.import_module("mutmut.configuration").config()
    os.chdir("mutants")
    arguments = [
        # The forks would all write to one terminal.
        *("--rootdir=.", "-p", "no:terminal", "-p", "no:randomly"),
        *settings.pytest_add_cli_args,
        *settings.pytest_add_cli_args_test_selection,
    ]
    return int(pytest.main(arguments, plugins=[MutantSession(children)]))


def _make_mutants(children: int) -> None:
    """Write the sources with all mutants; those of unchanged functions keep their results."""
    shutil.rmtree("mutants/tests", ignore_errors=True)
    Path("mutants").mkdir(exist_ok=True)
    mutmut = importlib.import_module("mutmut.__main__")
    importlib.import_module("mutmut.mutation.trampoline").set_mutant_under_test("mutant_generation")
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.setup_source_paths()
    mutmut.store_lines_covered_by_tests()
    mutmut.create_mutants(children)


class MutantSession:
    """A plugin of pytest that tries mutants in place of running the tests once."""

    def __init__(self, children: int) -> None:
        self._children = children
        self._mutant = ""
        self._called: set[str] = set()
        self._has_failed = False
        self._tests: dict[str, pytest.Item] = {}
        self._seconds: dict[str, float] = {}
        self._tests_of: defaultdict[str, list[str]] = defaultdict(list)
        #: Function -> the tests that have killed a mutant of it, the last one first.
        self._killers: defaultdict[str, list[str]] = defaultdict(list)
        vars(importlib.import_module("mutmut.mutation.trampoline")).update(
            get_mutant_under_test=lambda: self._mutant,
            record_trampoline_hit=lambda name, caller=None: self._called.add(name),
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Show why tests could not be collected."""
        if report.failed:
            sys.stderr.write(f"{report.longrepr}\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test has failed."""
        self._has_failed = self._has_failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants that have no result."""
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        self._tests = {item.nodeid: item for item in session.items}
        _clear_caches()
        self._measure()
        # A collection in a fork would copy the memory that it shares.
        gc.freeze()
        self._try_all(ResultFiles(Path("src")))
        return True

    def _measure(self) -> None:
        """Learn in a fork, which may fill caches, what each test calls and how long it takes."""
        pid, answer = _fork(self._calls)
        text = answer.read()
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or not text:
            raise pytest.UsageError("the tests end before they can be measured")
        for name, (seconds, has_failed, functions) in json.loads(text).items():
            if has_failed:
                raise pytest.UsageError(f"{name} fails without a mutant")
            self._seconds[name] = seconds
            for each in functions:
                self._tests_of[each].append(name)
        for names in self._tests_of.values():
            names.sort(key=self._seconds.__getitem__)

    def _calls(self) -> str:
        self._mutant = "stats"
        found = {}
        for name in self._tests:
            _clear_caches()
            self._called.clear()
            self._has_failed = False
            before = time.process_time()
            self._run([name])
            seconds = time.process_time() - before
            found[name] = (seconds, self._has_failed, sorted(self._called))
        return json.dumps(found)

    def _run(self, names: list[str]) -> str:
        """Run tests until one fails, and return its name; empty if none does."""
        for name, following in zip(names, [*names[1:], ""], strict=True):
            item, next_item = self._tests[name], self._tests.get(following)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            if self._has_failed:
                return name
        return ""

    def _try_all(self, files: "ResultFiles") -> None:
        """Try the quick ones first; the results are saved again and again."""
        waiting = sorted(files.untried(), key=self._worst_seconds, reverse=True)
        running: dict[int, tuple[str, Any]] = {}
        done = 0
        while waiting or running:
            while waiting and len(running) < self._children:
                mutant = waiting.pop()
                if self._tests_of[_function(mutant)]:
                    pid, answer = self._start(mutant)
                    running[pid] = (mutant, answer)
                else:
                    files.set(mutant, NO_TEST)
            if running:
                pid, status = os.wait()
                self._finish(*running.pop(pid), os.waitstatus_to_exitcode(status), files)
            done += 1
            if done % SAVE_EVERY == 0:
                files.save()
                sys.stdout.write(f"{done} tried, {len(waiting)} waiting\n")
                sys.stdout.flush()
        files.save()

    def _worst_seconds(self, mutant: str) -> float:
        return sum(map(self._seconds.__getitem__, self._tests_of[_function(mutant)]))

    def _start(self, mutant: str) -> tuple[int, Any]:
        """Run the tests of a mutant in a fork; those that killed its neighbours come first."""
        function = _function(mutant)
        names = [*dict.fromkeys([*self._killers[function], *self._tests_of[function]])]

        def run() -> str:
            self._mutant = mutant
            return self._run(names)

        # An endless loop is ended; the tests themselves may be slow on a busy machine.
        return _fork(run, seconds=3.0 + 3.0 * self._worst_seconds(mutant))

    def _finish(self, mutant: str, answer: Any, code: int, files: "ResultFiles") -> None:
        with answer:
            killer = answer.read()
        if killer:
            killers = self._killers[_function(mutant)]
            killers[:] = [killer, *(each for each in killers if each != killer)]
        if code in SIGNALS:
            files.set(mutant, TIMED_OUT)
        else:
            files.set(mutant, KILLED if killer or code else SURVIVED)


class ResultFiles:
    """The files in which mutmut keeps the result of each mutant, one for each source."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[Path, dict[str, Any]] = {
            path: json.loads(path.read_text()) for path in sorted(folder.rglob("*.meta"))
        }
        self._results: Mapping[str, Results] = {
            name: content["exit_code_by_key"]
            for content in self._files.values()
            for name in content["exit_code_by_key"]
        }

    def untried(self) -> list[str]:
        """Return the mutants without a result."""
        return [name for name, results in self._results.items() if results[name] is None]

    def set(self, mutant: str, code: int) -> None:
        """Set the result of a mutant."""
        self._results[mutant][mutant] = code

    def save(self) -> None:
        """Write all files."""
        for path, content in self._files.items():
            path.write_text(json.dumps(content, indent=4))


def _function(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


def _clear_caches() -> None:
    """Empty the caches of our own functions."""
    for each in _caches():
        each.cache_clear()


@functools.cache
def _caches() -> list[Any]:
    kind = type(_caches)
    found = [each for each in gc.get_objects() if isinstance(each, kind)]
    return [each for each in found if str(each.__module__).startswith("kcm_host")]


def _fork(work: Callable[[], str], *, seconds: float = 0.0) -> tuple[int, Any]:
    """Return the process that does some work, and a file with its result; 0 seconds: no limit."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, os.fdopen(reader)
    code = 1
    try:
        os.close(reader)
        _silence()
        if seconds:
            _limit(seconds)
        with os.fdopen(writer, "w") as answer:
            answer.write(work())
        code = 0
    finally:
        os._exit(code)


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each in (1, 2):
        os.dup2(nowhere, each)


def _limit(seconds: float) -> None:
    """End this process after so much time of the processor, or ten times as much of the clock."""
    limit = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    signal.alarm(int(10 * seconds) + 1)


if __name__ == "__main__":
    sys.exit(main())
