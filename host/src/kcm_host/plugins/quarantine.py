"""Broken plugins: the stage that failed, the reason, and the remedy."""

import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from kcm_host.api.errors import Invalid
from kcm_host.observe.logging import place_of
from kcm_host.plugins.finder import Candidate

_MESSAGE_LENGTH = 400

#: Returns the remedy for an exception.
Remedy = Callable[[BaseException], str]


class Stage(StrEnum):
    """The steps from an installed plugin to a running one, in their order."""

    FIND = "find"
    VERSION = "version"
    IMPORT = "import"
    ATTRIBUTE = "attribute"
    CONSTRUCT = "construct"
    REGISTER = "register"
    VALIDATE = "validate"
    START = "start"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One plugin that is broken; `reason` and `remedy` are one line each."""

    name: str
    distribution: str
    version: str
    stage: Stage
    reason: str
    remedy: str
    #: Logged at level debug; empty when no exception of the plugin was the cause.
    traceback: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"plugin {self.name!r} ({self.distribution} {self.version}) is broken at stage "
            f"'{self.stage}': {self.reason}; {self.remedy}"
        )


class BrokenPlugin(Exception):
    """A plugin is broken: `quarantined` has the reason, the cause is the plugin's exception."""

    def __init__(self, quarantined: Quarantined) -> None:
        super().__init__(str(quarantined))
        self.quarantined = quarantined


def report_to_authors(candidate: Candidate) -> str:
    """Return the remedy for errors that only a new version of the plugin can fix."""
    return f"report it to the authors of {candidate.distribution!r}, or install another version"


@contextmanager
def guarded(
    candidate: Candidate, stage: Stage, *, doing: str, remedy: Remedy | None = None
) -> Iterator[None]:
    """
    Turn every exception of the plugin in this context into `BrokenPlugin`.

    Everything is caught, also `SystemExit`, except KeyboardInterrupt. `doing` names the attempt;
    without `remedy`, the remedy is a report to the authors of the plugin.
    """
    try:
        yield
    except (KeyboardInterrupt, BrokenPlugin):
        # A `BrokenPlugin` has its own stage already.
        raise
    except Invalid as error:
        # Its words are for the reader already; the traceback would only show the host's check.
        raise _broken(candidate, stage, error.fact, remedy=error.remedy) from error.__cause__
    except BaseException as error:
        reason = f"{doing} raised {one_line(error, module=candidate.module)}"
        text = "".join(traceback.format_exception(error))
        advice = remedy(error) if remedy else report_to_authors(candidate)
        raise _broken(candidate, stage, reason, remedy=advice, text=text) from error


def one_line(error: BaseException, *, module: str) -> str:
    """
    Return type and message of an exception, and the line of the plugin that raised it.

    That is the innermost line within the top package of `module`.
    """
    # Of a syntax error the quoted source comes first, of others the message.
    part = -1 if isinstance(error, SyntaxError) else 0
    message = traceback.format_exception_only(error)[part]
    place = place_of(error, module=module)
    message = textwrap.shorten(message, _MESSAGE_LENGTH, placeholder=" ...")
    return f"{message} at {place}" if place else message


def _broken(
    candidate: Candidate, stage: Stage, reason: str, remedy: str, text: str = ""
) -> BrokenPlugin:
    return BrokenPlugin(
        Quarantined(
            name=candidate.name,
            distribution=candidate.distribution,
            version=candidate.version,
            stage=stage,
            reason=reason,
            remedy=remedy,
            traceback=text,
        )
    )
