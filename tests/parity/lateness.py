"""Whether the looks of a scenario came while they still showed what they shall."""

import time
from collections.abc import Callable

from parity.scenario import Scenario, asks
from parity.steps import Look, Step, Wait


class Lateness:
    """
    What a scenario assumes about time, held against the time that passed.

    The original waits a fixed time (10 s after the deletion of a ServiceCIDR); a look at what is
    there until then shows something else on a machine that takes longer to come to it.
    """

    def __init__(self, scenario: Scenario, *, clock: Callable[[], float] = time.monotonic) -> None:
        waits = [step for step in scenario.steps if isinstance(step, Wait)]
        self._ahead = [wait for wait in waits if wait.assumes is not None]
        self._clock = clock
        self._begun: float | None = None

    def asks(self, step: Step) -> None:
        """Note the time before the first deletion that the next wait is about."""
        deleted = [ask.ref for ask in asks((step,)) if ask.verb == "delete"]
        if self._ahead and any(ref.startswith(self._ahead[0].since) for ref in deleted):
            self._begun = self._clock() if self._begun is None else self._begun

    def of(self, look: Look) -> str:
        """Return by how much a look that was just taken came too late; empty if it did not."""
        if not self._ahead or self._begun is None:
            return ""
        passed, assumed = self._clock() - self._begun, self._ahead[0].assumes
        if assumed is None or passed <= assumed:
            return ""
        return (
            f"the look '{look.title}' came {passed:.1f} s after a deletion, and shows what it "
            f"shall only within {assumed:g} s"
        )

    def waits(self, wait: Wait) -> None:
        """Note that what was deleted before this wait is settled after it."""
        if wait.assumes is not None:
            self._ahead = self._ahead[1:]
            self._begun = None
