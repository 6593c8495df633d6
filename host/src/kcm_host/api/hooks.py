"""
The hooks a plugin implements, and their markers.

A controller is one class with `kcm_watches`, `kcm_sync` and `kcm_status`; `kcm_writes` if it
writes, `kcm_settings` if it has settings. Its entry point in the group `kcm_host.controllers`
names the class. The host makes one instance, without arguments, for each start of the
controller; all state of the controller lives in it. `kcm_more_watches`, `kcm_timers`,
`kcm_metrics` and `kcm_workers` are for those who need them. Extensions (group
`kcm_host.extensions`) implement `kcm_observe`.

    class Ttl:
        @hookimpl
        def kcm_watches(self, settings, discovery): ...
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy
from pydantic import BaseModel

from kcm_host.api.discovery import Discovery
from kcm_host.api.kinds import Key
from kcm_host.api.metrics import Metric
from kcm_host.api.outcomes import Outcome
from kcm_host.api.records import SyncRecord
from kcm_host.api.timers import Timer
from kcm_host.api.views import View
from kcm_host.api.watches import AnyWatch
from kcm_host.api.writes import Permission, Writer

PROJECT = "kcm_host"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def kcm_settings() -> type[BaseModel] | None:
    """
    Give the pydantic model of `controllers.<name>.settings`.

    Called once when the plugin is loaded. Left out: the controller has no settings, and hooks
    get None for them.
    """


@hookspec(firstresult=True)
def kcm_watches(settings: Any, discovery: Discovery) -> Sequence[AnyWatch] | None:
    """
    Give the kinds to follow. Required.

    Called once at each start of the controller, before anything else; no I/O. No sync starts
    before the initial objects of all these watches have gone through their `keys`. An empty list
    means that there is nothing to do with what is served now: the controller idles.
    """


@hookspec(firstresult=True)
def kcm_more_watches(view: View, settings: Any, discovery: Discovery) -> Sequence[AnyWatch] | None:
    """
    Give what to follow beyond `kcm_watches`, at this moment.

    Called on a running controller: once its initial objects are known, when what the server
    serves has changed, and soon after a `Rewatch`; no I/O. Watches it names anew are begun (kind
    and model tell them apart), those it no longer names end, and one that is declared otherwise
    than before begins anew (its functions are not compared). Syncs do not wait for them, and one
    that cannot be followed holds up nothing else: `Objects.problem` tells why.
    """


@hookspec(firstresult=True)
def kcm_writes(settings: Any) -> Sequence[Permission] | None:
    """
    Give everything the controller writes; anything else is refused at run time.

    Called once at each start. Left out: the controller writes nothing.
    """


@hookspec(firstresult=True)
def kcm_timers(settings: Any) -> Sequence[Timer] | None:
    """
    Give the keys to queue because time has passed.

    Called once at each start.
    """


@hookspec(firstresult=True)
def kcm_workers() -> int | None:
    """
    Give how many syncs may run at a time where the configuration does not say; left out: 5.

    Called once when the plugin is loaded.
    """


@hookspec(firstresult=True)
async def kcm_sync(key: Key, view: View, writer: Writer, settings: Any) -> Outcome | None:
    """
    Bring what `key` stands for from what is to what should be. Required, and async.

    Called once per queued key, never twice at a time for equal keys, by as many workers as
    configured; limited to 60 seconds. Returns `Done()` or `Later(after)`; an exception is a
    retry with back-off: 5 ms, doubled up to 1000 s, no more than 10 a second over all keys
    beyond a burst of 100 (IQ-79). It must not block: everything here shares one event loop.
    """


@hookspec(firstresult=True)
def kcm_status(view: View, settings: Any) -> Mapping[str, Any] | None:
    """
    Give a small mapping of plain values, shown under `/status`. Required; no I/O.

    Called at each request of that page while the controller runs.
    """


@hookspec(firstresult=True)
def kcm_metrics(view: View, settings: Any) -> Sequence[Metric] | None:
    """
    Give the controller's own metrics, beside those the host has of every controller.

    Called on the event loop at each scrape of `/metrics` while the controller runs; no I/O. Keep
    counts as things change: going through all objects here would hold up every controller.
    """


@hookspec
def kcm_observe(record: SyncRecord) -> None:
    """
    Learn of a sync that ended. For extensions.

    Called after each sync of every controller, on the event loop: must not block. An exception
    is counted and logged, never raised.
    """
