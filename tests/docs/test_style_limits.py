"""Sizes of files and functions, and what must not stand in any file."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from pages import ROOT, files

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60
POSITIONAL_ARGUMENTS = 3
#: Functions with any number of arguments of one meaning, and a class of click.
VARIADIC = ("partial", "function_errors", "kind")
SOURCES = ("host/src/", "testing/src/", "plugins/")
TEXT = (".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ".cfg", "Makefile", ".mod")
#: Spelt so that this file does not contain what it looks for.
FORBIDDEN = {
    "path of a machine": re.compile(r"(?<![\w.])/(?:root|work|tmp)(?:/|\b)(?!-)"),
    "address of a registry": re.compile(
        r"\b(?:pypi\.or[g]|pythonhosted\.or[g]|proxy\.golang\.or[g]|npmjs\.or[g])"
        r"|--(?:extra-)?index-url|GOPROXY=http"
    ),
}


def product() -> Iterator[Path]:
    """Return the product's own modules; tests, demo and bench are left out."""
    for path in files(".py"):
        if str(path.relative_to(ROOT)).startswith(SOURCES):
            yield path


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Return name and lines of each function, its docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node) is not None
            doc = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield (
                f"{path.relative_to(ROOT)}:{node.name}",
                (node.end_lineno or 0) - node.lineno + 1 - doc,
            )


def tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print a figure for the reader of the test run."""
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


def test_no_file_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    """400 lines is a hard stop; the median is printed."""
    sizes = {path: len(path.read_text().splitlines()) for path in product()}
    median_lines = f"median {median(sizes.values()):g} lines, max {max(sizes.values())}"
    tell(capsys, f"{len(sizes)} files: {median_lines}")
    assert [str(path) for path, lines in sizes.items() if lines > LINES_OF_A_FILE] == []


def test_no_function_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    """60 lines without docstring is a hard stop; median and 90th percentile are printed."""
    sizes = dict(one for path in product() for one in functions(path))
    ordered = sorted(sizes.values())
    high = f"p90 {ordered[len(ordered) * 9 // 10]}, max {ordered[-1]}"
    tell(capsys, f"{len(ordered)} functions: median {median(ordered):g} lines, {high}")
    assert {name: size for name, size in sizes.items() if size > LINES_OF_A_FUNCTION} == {}


def test_no_call_has_many_positional_arguments() -> None:
    """The fourth argument of a call says its name: nobody counts commas."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}"
        for path in product()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and len(node.args) > POSITIONAL_ARGUMENTS
        and ast.unparse(node.func) not in VARIADIC
    ]
    assert found == []


@pytest.mark.parametrize(("what", "pattern"), FORBIDDEN.items(), ids=FORBIDDEN)
def test_files_name_no_machine_and_no_registry(what: str, pattern: re.Pattern[str]) -> None:
    """What only holds on one machine or in one network stands in no file."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what} '{match[0]}'"
        for path in files(*TEXT)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := pattern.search(line))
        and not line.startswith("FORBIDDEN")
        and path != Path(__file__)
    ]
    assert found == []


def test_public_functions_of_tests_have_docstrings() -> None:
    """Every test says what behaviour it states."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in files(".py")
        if path.name.startswith("test_")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
