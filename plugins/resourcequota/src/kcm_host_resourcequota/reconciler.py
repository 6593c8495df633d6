"""The reconciler: writes the desired status of a quota, and records Events."""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from kcm_host.api import (
    ApiError,
    Conflict,
    Done,
    Key,
    Later,
    Outcome,
    Unreachable,
    View,
    Writer,
    decode_object,
)
from kcm_host_resourcequota.calculator import DesiredStatus, render_status
from kcm_host_resourcequota.deferred_release import MIN_WAIT_SECONDS
from kcm_host_resourcequota.metrics import ReconcilerMetrics
from kcm_host_resourcequota.models import RESOURCE_QUOTA, QuotaObject
from kcm_host_resourcequota.replenishment import Replenishment

log = logging.getLogger(__name__)

COMPONENT = "resourcequota-controller"
EVENT_INTERVAL_SECONDS = 3600.0
NOT_SERVED = "NotServed"
NOT_COUNTED = "NotCounted"
INVALID_SCOPE_SELECTOR = "InvalidScopeSelector"

UNPROCESSABLE_ENTITY = 422
#: A status from here on means that the server failed, not that it rejected the request.
SERVER_ERROR = 500


class QuotaReconciler:
    """Writes the status of quotas; `clock` returns seconds on a monotonic clock."""

    def __init__(self, replenishment: Replenishment, clock: Callable[[], float]) -> None:
        self.metrics = ReconcilerMetrics()
        self._replenishment = replenishment
        self._events = EventThrottle(clock)
        self._clock = clock

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Write the status of a quota if it is not right, with one request (RQ-40 to RQ-53).

        Names whose evaluator failed keep their usage, and the quota is enqueued again when the
        evaluator works (D-15). Raise the errors of the write.
        """
        replenishment = self._replenishment
        quota = replenishment.quotas.get(key)
        if quota is None:
            self._events.forget(key)
            return Done()
        replenishment.sync_started(key)
        desired = replenishment.desired_status(quota, view)
        wait = replenishment.monitor.seconds_to_wait(desired.calculation.failed, view)
        if wait >= MIN_WAIT_SECONDS:
            return Later(timedelta(seconds=wait))
        self._events.record(desired, writer)
        if desired.is_dirty:
            await self._write(desired, view, writer)
        replenishment.sync_finished(desired)
        if desired.release.deferred:
            return Later(timedelta(seconds=desired.release.wait_seconds))
        return Done()

    async def _write(self, desired: DesiredStatus, view: View, writer: Writer) -> None:
        """Write the desired status into the version that it was computed from."""
        key = desired.quota.key
        full_object = view.of(RESOURCE_QUOTA, QuotaObject).full_object(key.name, key.namespace)
        # An undecodable version is newer than the one that the status was computed from.
        if full_object is None:
            return
        formats = partial(self._replenishment.monitor.formats, desired.quota, desired.plan)
        status = render_status(decode_object(full_object, dict[str, Any]), desired, formats)
        release = self._replenishment.releases[key]
        resync = self._replenishment.is_resyncing(key)
        since = release.deletion_pending_since
        release.write_started(desired.release, now=self._clock())
        self._replenishment.write_started(desired)
        try:
            await self._update(full_object, status, writer)
        except (ApiError, Unreachable) as error:
            self.metrics.conflicts += isinstance(error, Conflict)
            if not may_have_arrived(error):
                release.write_rejected(desired.release)
            raise
        waited = self._clock() - since if since is not None else None
        self.metrics.record_write(desired, resync=resync, waited_seconds=waited)

    @staticmethod
    async def _update(
        full_object: Mapping[str, Any], status: Mapping[str, Any], writer: Writer
    ) -> None:
        """Update the status; entries that the server rejects keep their old text (D-19)."""
        try:
            await _update_status(full_object, status, writer)
        except ApiError as error:
            rejected = rejected_names(error, status["used"])
            if not rejected:
                raise
            present = decode_object(full_object, dict[str, Any])
            old = (present.get("status") or {}).get("used") or {}
            kept = {name: text for name, text in old.items() if name in rejected}
            used = {name: text for name, text in status["used"].items() if name not in rejected}
            log.warning("usage rejected by the server", extra={"kv": {"error": str(error)}})
            await _update_status(full_object, {**status, "used": {**used, **kept}}, writer)


class EventThrottle:
    """
    Warning Events about quotas, at most one for each quota, reason and hour (RQ-B60).

    `clock` returns seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._recorded_at: dict[Key, dict[str, float]] = {}

    def record(self, desired: DesiredStatus, writer: Writer) -> None:
        """Record an Event for each problem of a quota."""
        key = desired.quota.key
        for reason, message in warnings_for(desired):
            recorded_at = self._recorded_at.setdefault(key, {})
            last = recorded_at.get(reason, -EVENT_INTERVAL_SECONDS)
            if self._clock() - last >= EVENT_INTERVAL_SECONDS:
                recorded_at[reason] = self._clock()
                writer.event(
                    RESOURCE_QUOTA, key, reason=reason, message=message, component=COMPONENT
                )

    def forget(self, key: Key) -> None:
        """Remove what was recorded about a quota that was deleted."""
        self._recorded_at.pop(key, None)


def warnings_for(desired: DesiredStatus) -> Iterator[tuple[str, str]]:
    """Yield reason and message of each problem of a quota."""
    names = ", ".join(desired.plan.unhandled)
    if names:
        yield (
            NOT_SERVED,
            f"nothing counts under {names}; check the spelling, and that the resource is installed",
        )
    problems = "; ".join(desired.calculation.failed.values())
    if problems:
        yield NOT_COUNTED, f"names of resources that cannot be counted keep their usage: {problems}"
    malformed = desired.quota.spec.selector.malformed
    if malformed:
        yield INVALID_SCOPE_SELECTOR, f"the quota counts nothing: {malformed}"


def may_have_arrived(error: ApiError | Unreachable) -> bool:
    """Return whether the server may have stored a write although the request failed."""
    if isinstance(error, Unreachable):
        return not error.refused
    # A failing server or proxy may send this status also for a write that was stored.
    return error.status >= SERVER_ERROR


def rejected_names(error: ApiError, used: Mapping[str, str]) -> set[str]:
    """Return the entries of `status.used` that the server rejects as invalid (RQ-256)."""
    if error.status != UNPROCESSABLE_ENTITY:
        return set()
    return {name for name in used if f"status.used[{name}]" in str(error)}


async def _update_status(
    full_object: Mapping[str, Any], status: Mapping[str, Any], writer: Writer
) -> None:
    await writer.update(RESOURCE_QUOTA, {**full_object, "status": status}, subresource="status")
