"""Configuration errors: the fact, the place and the remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kcm_host.config.tree import Origin

#: The most errors that are reported: a generated file may hold thousands.
MAX_PROBLEMS = 100
_FIRST = "correct those above first"
_LONGEST_WORD = 100
_LONGEST_PART = 600


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in the configuration: the fact, the place and the remedy."""

    fact: str
    path: str = ""
    origin: Origin | None = None
    remedy: str = ""

    @property
    def file(self) -> str | None:
        """The file of the error, None when it is in a variable or a flag."""
        return self.origin.name if self.origin and self.origin.kind == "file" else None

    @property
    def line(self) -> int | None:
        """The line in the file, counted from 1; None without one."""
        return (self.origin.line or None) if self.origin else None

    @property
    def column(self) -> int | None:
        """The column in the line, counted from 1; None without one."""
        return (self.origin.column or None) if self.origin else None

    def __str__(self) -> str:
        place = self.origin.place if self.origin else ""
        parts = map(_shortened, (place, self.path, self.fact))
        text = ": ".join(part for part in parts if part)
        return f"{text}; {_shortened(self.remedy)}" if self.remedy else text


class ConfigError(Exception):
    """
    The configuration is invalid; `problems` has the errors, in order of place.

    Of more than MAX_PROBLEMS only the first are kept, and one that says so.
    `log_form` is the log format that the configuration sets, None when it sets none.
    """

    def __init__(self, problems: Iterable[Problem], *, log_form: str | None = None) -> None:
        self.log_form = log_form
        # One mistake in an anchor is met at each of its aliases.
        distinct = tuple(dict.fromkeys(problems))
        if len(distinct) > MAX_PROBLEMS:
            origin = distinct[MAX_PROBLEMS].origin
            more = Problem("there are more mistakes", origin=origin, remedy=_FIRST)
            distinct = (*distinct[:MAX_PROBLEMS], more)
        self.problems = distinct
        super().__init__("\n".join(str(problem) for problem in self.problems))


def suggest(word: str, choices: Sequence[str], *, likeness: float = 0.6) -> str | None:
    """
    Return the choice closest to `word`, ignoring case; None if none is close.

    `likeness` is from 0 to 1; long words with a common part need more of it.
    """
    by_lower = {choice.lower(): choice for choice in choices}
    # Cut off: the comparison takes time by the square of the length.
    close = get_close_matches(word[:_LONGEST_WORD].lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, choices: Sequence[str]) -> str:
    """Return a remedy with the closest choice, or else with all choices; empty without any."""
    close = suggest(word, choices)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"known here: {', '.join(sorted(choices))}" if choices else ""


def _shortened(part: str) -> str:
    """Return a part of an error message, without the middle when it is too long."""
    if len(part) <= _LONGEST_PART:
        return part
    return f"{part[: _LONGEST_PART // 2]}...{part[-_LONGEST_PART // 4 :]}"
