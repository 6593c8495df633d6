"""Results of a sync: done, again later, or failed for good. An exception is a retry."""

from datetime import timedelta

import msgspec


class Done(msgspec.Struct, frozen=True):
    """The actual state is the desired state; the number of failures is reset."""


class Later(msgspec.Struct, frozen=True):
    """
    The key is synced again after this time; the number of failures is reset.

    Raises `ValueError` if `after` is not above zero: a key that is synced again at once occupies
    a worker for ever.
    """

    after: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.after, timedelta):
            raise TypeError(f"Later({self.after!r}); write Later(timedelta(seconds=...))")
        if self.after <= timedelta(0):
            raise ValueError(
                f"Later({self.after!r}) is not above zero; return Done() if there is nothing to "
                "wait for, or raise an exception to retry after a back-off"
            )


class Terminal(msgspec.Struct, frozen=True):
    """
    The sync has failed, and only a change of the object can help; the number of failures is reset.

    The key is not retried. `text` is logged as an error: it says what has to be changed.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"Terminal({self.text!r}); write Terminal(str(error))")


Outcome = Done | Later | Terminal
