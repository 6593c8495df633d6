"""
The hooks a plugin implements, and their markers.

A controller is one class with `kcm_watches` and `kcm_sync`; `kcm_writes` if it writes,
`kcm_settings` if it has settings. Its entry point in the group `kcm_host.controllers` names the
class. The host makes one instance for each start of the controller, with the validated settings as
the only argument if it has any; all state of the controller lives in it. The other hooks are for
those who need them. Extensions (group `kcm_host.extensions`) implement `kcm_observe`.

    class Ttl:
        @hookimpl
        def kcm_watches(self): ...

A method takes those arguments of its hook that it needs, by their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec
import pluggy
from pydantic import BaseModel

from kcm_host.api.kinds import Discovery, Key
from kcm_host.api.sync import Outcome, SyncRecord
from kcm_host.api.watch import AnyWatch, Enqueue, Timer, View
from kcm_host.api.writes import Permission, Writer


class ControllerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the host has to know of a controller before there is an instance.

    Every field may be left out.
    """

    #: Other names that configuration, variables and flags may use for it.
    aliases: tuple[str, ...] = ()
    #: The service account as which it writes with `serviceAccountCredentials`; empty: its name.
    service_account: str = ""
    #: The label `name` of its `workqueue_*` metrics; empty: its name.
    queue_name: str = ""
    #: How many syncs may run at the same time if the configuration does not say it.
    workers: int = 5
    #: After this time a sync is cancelled and retried.
    sync_timeout: timedelta = timedelta(seconds=60)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """
    One metric with all its series at one moment.

    `name` is the full name, with `_total` for counters. A series is a set of labels with a value;
    every series has the same labels.
    """

    name: str
    help: str
    type: Literal["counter", "gauge"]
    series: tuple[tuple[Mapping[str, str], float], ...]


PROJECT = "kcm_host"

# Hooks of controllers are `firstresult`: each instance has a plugin manager of its own, so there is
# one implementation, and a list of one result would only be unpacked again.
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def kcm_info() -> ControllerInfo | None:
    """
    Return what the host has to know before there is an instance. A static method.

    Called once when the plugin is loaded, also when only its aliases are needed.
    """


@hookspec(firstresult=True)
def kcm_settings() -> type[BaseModel] | None:
    """
    Return the pydantic model of `controllers.<name>.settings`. A static method.

    Called once when the plugin is loaded. The keys are the field names in camelCase, and unknown
    keys are errors, whatever the model says. The class then takes one argument: the validated
    settings. Without this hook the controller has no settings.
    """


@hookspec(firstresult=True)
def kcm_watches(discovery: Discovery) -> Sequence[AnyWatch] | None:
    """
    Return the watches of the controller. Required.

    Called once at each start of the controller, before every other hook; no I/O. No sync starts
    before the initial objects of all these watches have gone through their `keys`. An empty list
    means that there is nothing to do with what the API server serves now: the controller is idle.
    """


@hookspec(firstresult=True)
def kcm_dynamic_watches(view: View, discovery: Discovery) -> Sequence[AnyWatch] | None:
    """
    Return the watches that are needed beyond `kcm_watches` at this moment.

    Called while the controller runs: once its initial objects are known, when the resources that
    the API server serves have changed, and soon after a `RefreshWatches`; no I/O. A watch that
    was not returned before is started (its name identifies a watch), one that is no longer
    returned is stopped, and one that is declared in another way than before is started again. If
    only its functions differ, the new ones are called from then on: do not make index functions
    anew at each call, because every object is indexed again. Syncs do not wait for these watches.
    A failing one does not affect the others: `Objects.problem` has the reason.
    """


@hookspec(firstresult=True)
def kcm_synced(view: View) -> Iterable[Enqueue] | None:
    """
    Return the keys to queue when the initial objects of all required watches are known.

    Called once at each start, after their `keys` and before the first sync; no I/O. It is for what
    only all objects together show. An exception restarts the controller.
    """


@hookspec(firstresult=True)
def kcm_writes() -> Sequence[Permission] | None:
    """
    Return a permission for everything that the controller writes; other writes are refused.

    Called once at each start. Without this hook the controller writes nothing.
    """


@hookspec(firstresult=True)
def kcm_timers() -> Sequence[Timer] | None:
    """
    Return the timers that queue keys after fixed times.

    Called once at each start.
    """


@hookspec(firstresult=True)
async def kcm_sync(key: Key, view: View, writer: Writer) -> Outcome:  # type: ignore[empty-body]
    """
    Compare the actual state of one key with the desired state, and write what differs.

    Required, and async. Called once for each queued key, never twice at the same time for equal
    keys, by as many workers as configured; limited to `ControllerInfo.sync_timeout`. Returns
    `Done()`, `Later(after)` or `Terminal(text)`. An exception leads to a retry after a back-off:
    5 ms, doubled up to 1000 s, at most 10 a second over all keys after a burst of 100. It must not
    block: all controllers share one event loop.
    """


@hookspec(firstresult=True)
def kcm_status(view: View) -> Mapping[str, Any] | None:
    """
    Return a small mapping of plain values that `/status` shows; no I/O.

    Called at each request of that endpoint while the controller runs.
    """


@hookspec(firstresult=True)
def kcm_metrics(view: View) -> Sequence[Metric] | None:
    """
    Return the controller's own metrics; the host has metrics of every controller beside them.

    Called on the event loop at each scrape of `/metrics` while the controller runs; no I/O. Count
    when objects change: a loop over all objects here would block every controller.
    """


@hookspec
def kcm_observe(record: SyncRecord) -> None:
    """
    Handle the record of a sync that has ended. For extensions.

    Called after each sync of every controller, on the event loop: must not block. An exception
    is counted and logged, never raised.
    """
