"""What plugins build on. Only names listed here are promised."""

from kcm_host.api.discovery import Discovery, Resource
from kcm_host.api.duration import Duration
from kcm_host.api.enqueue import Enqueue, EnqueueRequest, Priority, RefreshWatches
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
from kcm_host.api.info import ControllerInfo
from kcm_host.api.kinds import Key, Kind
from kcm_host.api.metadata import (
    Condition,
    Model,
    ObjectMeta,
    OwnerReference,
    find_condition,
    owner_reference,
    set_condition,
)
from kcm_host.api.metrics import Metric
from kcm_host.api.quantity import Quantity, QuantityError, QuantityFormat
from kcm_host.api.raw import decode_object
from kcm_host.api.records import Cause, SyncOutcome, SyncRecord, WriteRecord
from kcm_host.api.result import Done, Later, Outcome, Terminal
from kcm_host.api.settings import Settings
from kcm_host.api.timers import Timer
from kcm_host.api.views import Objects, View
from kcm_host.api.watch import AnyWatch, Change, Watch, owner_keys
from kcm_host.api.writes import (
    EVENT,
    EVENTS,
    FinalizerMetadata,
    PatchType,
    Permission,
    Verb,
    Write,
    Writer,
    WriteResponse,
)

__all__ = [
    "EVENT",
    "EVENTS",
    "AnyWatch",
    "ApiError",
    "Cause",
    "Change",
    "Condition",
    "Conflict",
    "ControllerInfo",
    "Discovery",
    "Done",
    "Duration",
    "Enqueue",
    "EnqueueRequest",
    "FinalizerMetadata",
    "HostError",
    "InvalidKey",
    "Key",
    "Kind",
    "Later",
    "Metric",
    "Model",
    "NotFound",
    "ObjectMeta",
    "Objects",
    "Outcome",
    "OwnerReference",
    "PatchType",
    "Permission",
    "Priority",
    "Quantity",
    "QuantityError",
    "QuantityFormat",
    "RefreshWatches",
    "Resource",
    "Settings",
    "SyncOutcome",
    "SyncRecord",
    "Terminal",
    "Timer",
    "UndeclaredRead",
    "UndeclaredWrite",
    "Undecodable",
    "Unreachable",
    "Verb",
    "View",
    "Watch",
    "Write",
    "WriteRecord",
    "WriteResponse",
    "Writer",
    "WriterClosed",
    "decode_object",
    "find_condition",
    "hookimpl",
    "owner_keys",
    "owner_reference",
    "set_condition",
]
