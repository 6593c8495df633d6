"""Whether a scenario went the same way on both sides, told so that it can be acted on."""

from parity.compare import deviations
from parity.differences import undeclared, unseen
from parity.result import Result
from parity.scenario import Scenario

SHOWN = 12


def verdict(scenario: Scenario, theirs: Result, ours: Result) -> str:
    """Return the failure as text; empty when the results differ by what is declared only."""
    for side, result in (("reference", theirs), ("host", ours)):
        if problem := result.problem or result.late:
            return f"{scenario.told()}\n\nthe {side} could not be played: {problem}"
    found = deviations(theirs, ours, scenario)
    wrong = [str(each) for each in undeclared(found, (*scenario.differs, *scenario.by_chance))]
    wrong += [
        f"the declared Difference '{name}' does not show: take it out of the scenario or mend it"
        for name in unseen(found, scenario.differs)
    ]
    if not wrong:
        return ""
    more = [f"... and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    named = f"declared here: {', '.join(scenario.differs) or 'nothing'}"
    return "\n".join([scenario.told(), "", f"undeclared ({named}):", *wrong[:SHOWN], *more])
