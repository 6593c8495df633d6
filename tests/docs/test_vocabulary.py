"""One word for one thing, and the field's word: what was left behind does not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from docs.test_style_limits import product
from pages import ROOT, files, pages

#: Home-made word -> what the field calls it. A word counts in identifiers and in prose.
LEFT_BEHIND = {
    "shelf": "informer",
    "follower": "event handler",
    "newcomer": "late handler",
    "welcome": "initial notifications",
    "misfit": "undecodable",
    "crew": "worker group",
    "echo": "link from a write to its trace",
    "remark": "event occurrence",
    "heed": "poll",
    "stanza": "section",
    "goodbye": "close_notify",
    "vetted": "validated",
    "complaint": "error",
    "upkeep": "periodic task",
    "keeper": "blocking address",
    "leaked": "stale",
    "owed": "deferred",
    # Spelt so that a search for it finds nothing.
    "contestant": "candidate",
}
#: Beginnings of docstrings that do not say what is returned, raised or done.
BEGINNINGS = ("Give ", "Whether ", "Say ", "Tell ", "Take note ", "Let ")
PLURALS = {"shelves": "shelf", "echoes": "echo"}
WORD = re.compile(r"[A-Za-z][a-z]*")
QUOTED = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def words(text: str) -> Iterator[str]:
    """Return the words of an identifier or a sentence in the singular, in lower case."""
    for match in WORD.finditer(text):
        word = match[0].lower()
        yield PLURALS.get(word, word)
        yield word.removesuffix("s")


def left_behind(text: str) -> set[str]:
    """Return the words in a text that were left behind."""
    return LEFT_BEHIND.keys() & set(words(text.replace("click.echo", "")))


def told(path: Path) -> Iterator[tuple[int, str]]:
    """Return the identifiers, comments and strings of a module, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        kinds = (tokenize.NAME, tokenize.COMMENT, tokenize.STRING)
        if token.type in kinds and token.string != "echo":  # click's function
            yield token.start[0], token.string


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Return the docstrings of the functions of a module, with their lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.lineno, text


def test_code_has_the_words_of_the_field() -> None:
    """Identifiers, comments and texts of the product hold none of the words left behind."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: '{word}', say '{LEFT_BEHIND[word]}'"
        for path in product()
        for line, text in told(path)
        for word in sorted(left_behind(text))
    ]
    assert wrong == []


def test_pages_have_the_words_of_the_field() -> None:
    """Pages that explain hold none of them; rules and changelogs keep what they said."""
    wrong = [
        f"{page.relative_to(ROOT)}: '{word}', say '{LEFT_BEHIND[word]}'"
        for page in pages()
        if "spec" not in page.parts and page.name != "CHANGELOG.md"
        for word in sorted(left_behind(QUOTED.sub("", page.read_text())))
    ]
    assert wrong == []


def test_docstrings_begin_with_what_is_returned_raised_or_done() -> None:
    """A reader learns from the first word what a function is for."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in files(".py")
        if "tests" not in path.relative_to(ROOT).parts
        for line, text in docstrings(path)
        if text.startswith(BEGINNINGS)
    ]
    assert wrong == []
