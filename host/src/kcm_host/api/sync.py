"""One sync: its causes, its result, and its record after it has ended."""

from datetime import timedelta
from typing import Literal

import msgspec

from kcm_host.api.kinds import Key


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
        # `Later(0)` made 22,795 syncs of one key in 6 s (F-62).
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


#: How a sync ended: by its result, by an exception (`error`), by the time limit, or from outside.
SyncOutcome = Literal["done", "later", "terminal", "error", "timeout", "cancelled"]


class Cause(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    Why a key was queued.

    `reason` is `added`, `updated`, `deleted` (then `kind`, `object` and `resource_version` name the
    object), `synced` (the initial objects of `kind` are known), `retry`, `timer` or `resync` (the
    periodic resync of `kind`). `received` is seconds on the monotonic clock.
    """

    reason: str
    received: float
    kind: str = ""
    object: str = ""
    resource_version: str = ""
    #: Trace and span id of the earlier sync that led to a retry or a timer, or that wrote what
    #: this change shows.
    link: tuple[int, int] | None = None


class WriteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One write of a sync with the HTTP status of the response, 0 if there was none."""

    verb: str
    kind: str
    object: str
    status: int
    seconds: float


class SyncRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    One sync, after it ended.

    `retry_after_seconds` is the time until the key runs again after an error, a timeout or
    `Later`; `error` is the text of an error, a timeout or `Terminal`. At most 16 `causes` are
    kept; `merged` counts all of them. `missed_wakeup` is true if the sync wrote although only the
    periodic resync had queued the key: `keys` of a watch should have returned it.
    """

    controller: str
    key: Key
    outcome: SyncOutcome
    attempt: int
    queued_seconds: float
    seconds: float
    causes: tuple[Cause, ...]
    merged: int
    writes: tuple[WriteRecord, ...]
    reads: int
    error: str = ""
    retry_after_seconds: float | None = None
    missed_wakeup: bool = False
