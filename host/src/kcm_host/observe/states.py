"""The host's own state at one moment, as shown under `/status` and counted in `/metrics`."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec


class FailingKey(msgspec.Struct, frozen=True, gc=False):
    """The failures of a key since its last success, and the text of the last error."""

    failures: int
    error: str = ""


class QueueState(msgspec.Struct, frozen=True, rename="camel"):
    """One controller's work queue. Ages are seconds; `failing` holds at most ten keys."""

    depth: int
    waiting: int
    processing: int
    adds: int
    retries: int
    unfinished_seconds: float
    longest_seconds: float
    failing: Mapping[str, FailingKey]


class StreamState(msgspec.Struct, frozen=True, rename="camel"):
    """
    One stream: what the server sends for one (resource, namespace, selectors).

    `phase` is `listing`, `watching` or `failed` (then `error` says why, and it is being tried
    again). `undecodable` names at most ten objects, `undecodable_count` counts all.
    """

    group: str
    version: str
    resource: str
    namespace: str
    label_selector: str
    field_selector: str
    metadata_only: bool
    phase: str
    synced: bool
    objects: int
    resource_version: str
    lists: int
    undecodable: tuple[str, ...]
    undecodable_count: int
    controllers: tuple[str, ...]
    error: str = ""


class ControllerState(msgspec.Struct, frozen=True, rename="camel"):
    """
    One enabled controller.

    `phase` is `starting` (its watches are being filled), `running`, `restarting` (after an
    exception in its watch functions, or for what the server serves since), `quarantined` (the
    plugin is broken) or `stopped`.
    It is ready while it runs, all its streams follow the server, no sync of it goes on after its
    cancellation, and its requests are not refused for lack of permissions. `status` is what the
    plugin's `kcm_status` said; empty where only probes and scrapes ask.
    """

    name: str
    phase: str
    ready: bool
    distribution: str = ""
    version: str = ""
    #: Why it is not ready, or what it cannot follow beside its fixed watches; with the remedy
    #: where there is one.
    problem: str = ""
    #: Why it has nothing to do although it runs; empty when it follows something.
    idle: str = ""
    workers: int = 0
    #: The label `name` of its `workqueue_*` metrics.
    queue_name: str = ""
    restarts: int = 0
    syncs: int = 0
    errors: int = 0
    queue: QueueState | None = None
    #: How long it sends no write yet, because the API server asked for that (`Retry-After`).
    write_pause_seconds: float = 0.0
    status: Mapping[str, Any] = {}


class Detail(Enum):
    """Parts of the host's state, by who reads them: each costs the event loop more."""

    READINESS = "readiness"
    #: And the streams and tasks.
    METRICS = "metrics"
    #: And the plugins' own status.
    STATUS = "status"


class HostState(msgspec.Struct, frozen=True, rename="camel"):
    """The whole host. It is ready when every enabled controller runs and follows its objects."""

    version: str
    server: str
    uptime_seconds: float
    ready: bool
    controllers: tuple[ControllerState, ...]
    streams: tuple[StreamState, ...]
    #: How many asyncio tasks there are: a number that keeps growing is a mistake of the host's.
    tasks: int = 0


class RequestRecord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    One attempt of one request, retries included.

    `status` is 0 when no answer came. `verb` is the RBAC verb (`list`, `watch`, `patch`),
    `method` the HTTP method. For a watch, `seconds` is the time until the first byte.
    """

    method: str
    verb: str
    host: str
    status: int
    seconds: float
    sent_bytes: int = 0
    received_bytes: int = 0
