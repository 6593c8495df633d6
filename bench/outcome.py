"""What makes a measurement worthless: work that was not done, or not as it should be."""


class WrongOutcome(Exception):
    """A candidate left wrong objects, wrote too much or too little, or ended badly."""


def require(holds: bool, message: str) -> None:
    """Raise `WrongOutcome` with this message unless it holds."""
    if not holds:
        raise WrongOutcome(message)
