"""Wrong settings are reported all at once, each with line, path, fact and remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest
from host.config.conftest import Problems
from wrong_configs import RUNS, WRONG, WRONG_CONTROLLERS

from kcm_host.config.errors import ConfigError
from kcm_host.config.load import load_settings

FILES = {**{RUNS + text: said for text, said in WRONG.items()}, **WRONG_CONTROLLERS}


@pytest.mark.parametrize(("text", "problem"), FILES.items(), ids=[text[-40:] for text in FILES])
def test_a_mistake_names_line_path_and_remedy(problems: Problems, text: str, problem: str) -> None:
    """An invalid key, value or controller is one line with place, path, fact and remedy."""
    [found] = problems(text)
    assert found.startswith(f"config.yaml:{problem}")


def test_all_problems_come_together_in_order(problems: Problems) -> None:
    """File, variables and flags are all validated; the file's problems are first, by line."""
    found = problems(
        "http: {bnd: 1}\ncontrollers:\n  x: {workers: 0}\n  x: {}\nlog: {level: 1, level: 2}\n",
        environ={"KCM_HOST_STARTTIMEOUT": "3"},
        overrides=["oops"],
        flags={"log.format": "xml"},
    )
    places = [problem.split(": ")[0] for problem in found]
    assert places == [
        "config.yaml:1:8",
        "config.yaml:3:16",
        "config.yaml:4:3",
        "config.yaml:5:14",
        "config.yaml:5:17",
        "flag --set oops",
        "flag --log-format",
        "variable KCM_HOST_STARTTIMEOUT",
    ]


def test_problem_has_its_parts_apart(write: Callable[[str], Path]) -> None:
    """A program can read file, line, column, path, fact and remedy of a problem (design 7)."""
    path = write("controllers:\n  ttl: {workerz: 3}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file=path, environ={})
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.column) == (str(path), 2, 9)
    assert (problem.path, problem.fact) == ("controllers.ttl.workerz", "unknown key 'workerz'")
    assert problem.remedy == "did you mean 'workers'?"


def test_thousands_of_mistakes_are_a_hundred_lines(problems: Problems) -> None:
    """The number of reported errors is limited, and the last line says so."""
    told = problems("\n".join([RUNS.strip(), *(f"k{number}: 1" for number in range(5000))]))
    assert len(told) == 101
    assert told[-1].endswith(": there are more mistakes; correct those above first")


def test_what_was_pasted_by_mistake_is_not_repeated_whole(problems: Problems) -> None:
    """A key or a value of a megabyte is shown with its middle left out."""
    found = problems(f"{RUNS}? {'k' * 500_000}\n: 1\nstartTimeout: '{'9' * 500_000}'\n")
    assert [line.split(":")[1] for line in found] == ["2", "4"]
    assert all(len(line) < 2000 for line in found)


def test_bytes_that_are_no_text_are_told(problems: Problems) -> None:
    """Bytes beyond UTF-8 in a variable or a flag are an error with its name."""
    environ = {"KCM_HOST_LOG__LEVEL": "\udcff"}
    assert problems(RUNS, environ=environ, overrides=["log.format=\udcfe"]) == [
        "variable KCM_HOST_LOG__LEVEL: this is not UTF-8; write it in UTF-8",
        "flag --set log.format: this is not UTF-8; write it in UTF-8",
    ]
