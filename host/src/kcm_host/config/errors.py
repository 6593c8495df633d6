"""Configuration errors: the fact, the place and the remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic_core import PydanticCustomError

from kcm_host.config.tree import Origin

#: A generated file may hold thousands of mistakes; nobody reads on after so many.
MOST_TOLD = 100
_FIRST = "correct those above first"
_LONGEST_WORD = 100
_LONGEST_PART = 600


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: what is the case, where, and what to do about it."""

    fact: str
    path: str = ""
    origin: Origin | None = None
    remedy: str = ""

    @property
    def file(self) -> str | None:
        """The file that holds the mistake, None when a variable or a flag does."""
        return self.origin.name if self.origin and self.origin.kind == "file" else None

    @property
    def line(self) -> int | None:
        """The line in the file, counted from 1; None where no line can be named."""
        return (self.origin.line or None) if self.origin else None

    @property
    def column(self) -> int | None:
        """The column in the line, counted from 1; None where no column can be named."""
        return (self.origin.column or None) if self.origin else None

    def __str__(self) -> str:
        place = self.origin.place if self.origin else ""
        parts = map(_shortened, (place, self.path, self.fact))
        text = ": ".join(part for part in parts if part)
        return f"{text}; {_shortened(self.remedy)}" if self.remedy else text


class ConfigError(Exception):
    """
    The configuration cannot be used; `problems` lists what was found, in order of place.

    Of more than MOST_TOLD only the first are kept, and one that says so.
    `log_form` is the log format that it asks for, None where it does not say.
    """

    def __init__(self, problems: Iterable[Problem], *, log_form: str | None = None) -> None:
        self.log_form = log_form
        told = tuple(dict.fromkeys(problems))
        if len(told) > MOST_TOLD:
            more = Problem("there are more mistakes", origin=told[MOST_TOLD].origin, remedy=_FIRST)
            told = (*told[:MOST_TOLD], more)
        self.problems = told
        super().__init__("\n".join(str(problem) for problem in self.problems))


def suggest(word: str, choices: Sequence[str], *, likeness: float = 0.6) -> str | None:
    """
    The choice that `word` most likely meant, None if none is close; case does not count.

    `likeness` runs from 0 to 1; long words with a part in common need more of it.
    """
    by_lower = {choice.lower(): choice for choice in choices}
    close = get_close_matches(word[:_LONGEST_WORD].lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, choices: Sequence[str]) -> str:
    """A remedy that names the closest choice, or else all choices; empty without any."""
    close = suggest(word, choices)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"known here: {', '.join(sorted(choices))}" if choices else ""


def _shortened(part: str) -> str:
    """A part of an error message without the middle of what somebody has pasted by mistake."""
    if len(part) <= _LONGEST_PART:
        return part
    return f"{part[: _LONGEST_PART // 2]}...{part[-_LONGEST_PART // 4 :]}"


def wrong(fact: str, remedy: str) -> PydanticCustomError:
    """An error for a validator to raise; the remedy reaches the operator as such."""
    return PydanticCustomError("setting", "{fact}; {remedy}", {"fact": fact, "remedy": remedy})
