"""What plugins build on. Only names listed here are promised."""

from kcm_host.api.discovery import Discovery, Resource
from kcm_host.api.duration import Duration
from kcm_host.api.errors import (
    ApiError,
    Conflict,
    HostError,
    InvalidKey,
    NotFound,
    UndeclaredRead,
    UndeclaredWrite,
    Undecodable,
    Unreachable,
    WriterClosed,
)
from kcm_host.api.hooks import hookimpl
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.metrics import Metric
from kcm_host.api.outcomes import Done, Later, Outcome
from kcm_host.api.raw import decode_object
from kcm_host.api.records import Cause, SyncRecord, WriteRecord
from kcm_host.api.timers import Timer
from kcm_host.api.views import Objects, View
from kcm_host.api.wakes import Lane, Rewatch, Wake, Wanted
from kcm_host.api.watches import AnyWatch, Change, Watch
from kcm_host.api.writes import EVENT, Permission, Receipt, Write, Writer

__all__ = [
    "EVENT",
    "AnyWatch",
    "ApiError",
    "Cause",
    "Change",
    "Conflict",
    "Discovery",
    "Done",
    "Duration",
    "HostError",
    "InvalidKey",
    "Key",
    "Kind",
    "Lane",
    "Later",
    "Metric",
    "NotFound",
    "Objects",
    "Outcome",
    "Permission",
    "Receipt",
    "Resource",
    "Rewatch",
    "SyncRecord",
    "Timer",
    "UndeclaredRead",
    "UndeclaredWrite",
    "Undecodable",
    "Unreachable",
    "View",
    "Wake",
    "Wanted",
    "Watch",
    "Write",
    "WriteRecord",
    "Writer",
    "WriterClosed",
    "decode_object",
    "hookimpl",
]
