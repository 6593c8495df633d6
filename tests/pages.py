"""The project's own files as tests read them: pages, their code blocks, tables and links."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What tools leave behind; everything else that begins with a dot but `.ci` is theirs too.
MADE = {"__pycache__", "dist", "build"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of code in a page."""

    page: Path
    language: str
    text: str
    number: int

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.language}-{self.number}"


def files(*suffixes: str) -> Iterator[Path]:
    """Return every file of the project that a commit would hold, those with these suffixes."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if _is_ours(name))
        for name in sorted(names):
            if not suffixes or name.endswith(suffixes):
                yield Path(folder) / name


def pages() -> list[Path]:
    """Return all pages of text."""
    return list(files(".md"))


def read(name: str) -> str:
    """Return the text of one page, by its path in the project."""
    return (ROOT / name).read_text()


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of code of all pages in these languages."""
    return [
        Block(page, language, text, number)
        for page in pages()
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text()), 1)
        if language in languages
    ]


def table(text: str) -> Iterator[list[str]]:
    """Return the cells of each row of the tables in a text, heads left out."""
    head = True
    for line in text.splitlines():
        if not line.startswith("|"):
            head = True
        elif set(line) <= set("|-: "):
            head = False
        elif not head:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def _is_ours(name: str) -> bool:
    if name.startswith("."):
        return name == ".ci"
    return name not in MADE and not name.endswith(".egg-info")
