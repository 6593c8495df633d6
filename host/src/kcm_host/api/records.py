"""What the host tells observers about a sync that ended: plain facts, no live objects."""

import msgspec

from kcm_host.api.kinds import Key


class Cause(msgspec.Struct, frozen=True, gc=False):
    """
    Why a key was queued.

    `reason` is `added`, `updated`, `deleted` (then `kind`, `object` and `version` say of what),
    `synced` (the initial objects of `kind` are known), `retry`, `timer` or `resync` (the slow
    sweep; `kind` says of what). `received` is seconds on the monotonic clock.
    """

    reason: str
    received: float
    kind: str = ""
    object: str = ""
    version: str = ""
    #: Trace and span id of the earlier sync behind a retry, a timer or the echo of a write.
    link: tuple[int, int] | None = None


class WriteRecord(msgspec.Struct, frozen=True):
    """One write of a sync, with the server's answer: a status, or 0 when none came."""

    verb: str
    kind: str
    object: str
    status: int
    seconds: float


class SyncRecord(msgspec.Struct, frozen=True):
    """
    One sync, after it ended.

    `outcome` is `done`, `later`, `error`, `timeout` or `cancelled`; `retry_after_seconds` says
    when the key runs again after an error, a timeout or `Later`. At most 16 `causes` are kept;
    `merged` counts all of them. `missed_wakeup` says that it wrote although only the slow sweep
    had asked for the key: `keys` of some watch should have.
    """

    controller: str
    key: Key
    outcome: str
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
