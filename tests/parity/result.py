"""What came of a scenario on one side."""

from dataclasses import dataclass, field
from typing import Any

Objects = dict[str, Any]


@dataclass(slots=True)
class Result:
    """
    All that is compared, free of whatever is another one each time.

    Filled while the scenario is played.
    """

    looks: dict[str, Objects] = field(default_factory=dict)
    """Title of the look -> reference of each object -> the object."""
    events: list[str] = field(default_factory=list)
    """What Events say: object, type, reason and message, each once, in order."""
    writes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Controller -> verb, resource and answer -> how often."""
    answers: dict[str, int] = field(default_factory=dict)
    """The scenario's own requests that were refused -> with which status."""
    refused: dict[str, int] = field(default_factory=dict)
    """What should be refused on the way -> how often it was."""
    late: str = ""
    """What took longer than the scenario assumes; then it has to be played again."""
    problem: str = ""
    """Why the scenario could not be played; then the rest means nothing."""
