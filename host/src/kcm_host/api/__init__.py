"""What plugins build on. Only names listed here are promised."""

from kcm_host.api.discovery import Discovery
from kcm_host.api.duration import Duration
from kcm_host.api.errors import (
    ApiError,
    Conflict,
    HostError,
    NotFound,
    UndeclaredRead,
    UndeclaredWrite,
    Undecodable,
    Unreachable,
)
from kcm_host.api.hooks import hookimpl
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.outcomes import Done, Later, Outcome
from kcm_host.api.records import Cause, SyncRecord, WriteRecord
from kcm_host.api.views import Objects, View
from kcm_host.api.watches import AnyWatch, Change, Watch
from kcm_host.api.writes import Permission, Receipt, Write, Writer

__all__ = [
    "AnyWatch",
    "ApiError",
    "Cause",
    "Change",
    "Conflict",
    "Discovery",
    "Done",
    "Duration",
    "HostError",
    "Key",
    "Kind",
    "Later",
    "NotFound",
    "Objects",
    "Outcome",
    "Permission",
    "Receipt",
    "SyncRecord",
    "UndeclaredRead",
    "UndeclaredWrite",
    "Undecodable",
    "Unreachable",
    "View",
    "Watch",
    "Write",
    "WriteRecord",
    "Writer",
    "hookimpl",
]
