"""How our validators tell pydantic what is wrong, so that fact and remedy stay apart."""

from pydantic_core import PydanticCustomError


def wrong(fact: str, remedy: str) -> PydanticCustomError:
    """An error for a validator to raise; the remedy reaches the operator as such."""
    return PydanticCustomError("setting", "{fact}; {remedy}", {"fact": fact, "remedy": remedy})
