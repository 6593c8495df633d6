"""What users are told about their quotas, as Events: each fact once an hour."""

import logging
import time
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
from kcm_host_resourcequota.calculator import Assessment, status_of
from kcm_host_resourcequota.deferred_release import MOMENT_SECONDS
from kcm_host_resourcequota.metrics import Figures
from kcm_host_resourcequota.models import RESOURCE_QUOTA, QuotaObject
from kcm_host_resourcequota.replenishment import Routing

log = logging.getLogger(__name__)


COMPONENT = "resourcequota-controller"
HOUR_SECONDS = 3600.0

NOT_SERVED = "NotServed"
NOT_COUNTED = "NotCounted"
BAD_SELECTOR = "InvalidScopeSelector"


class Notices:
    """
    Warnings about quotas, at most one for each quota, reason and hour (RQ-B60).

    `clock` gives seconds on a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[Key, dict[str, float]] = {}

    def tell(self, found: Assessment, writer: Writer) -> None:
        """Warn about everything that is wrong with a quota."""
        key = found.quota.key
        for reason, message in warnings_of(found):
            told = self._told.setdefault(key, {})
            if self._clock() - told.get(reason, -HOUR_SECONDS) >= HOUR_SECONDS:
                told[reason] = self._clock()
                writer.event(
                    RESOURCE_QUOTA, key, reason=reason, message=message, component=COMPONENT
                )

    def forget(self, key: Key) -> None:
        """Drop what was told about a quota that is gone."""
        self._told.pop(key, None)


def warnings_of(found: Assessment) -> Iterator[tuple[str, str]]:
    """Give reason and message of everything that is wrong with a quota."""
    names = ", ".join(found.plan.unserved)
    if names:
        yield (
            NOT_SERVED,
            f"nothing counts under {names}; check the spelling, and that the resource is installed",
        )
    problems = "; ".join(found.calculation.failed.values())
    if problems:
        yield NOT_COUNTED, f"names of resources that cannot be counted keep their usage: {problems}"
    malformed = found.quota.asked.selection.malformed
    if malformed:
        yield BAD_SELECTOR, f"the quota counts nothing: {malformed}"


INVALID = 422
#: From here on, a status says that the server failed, not that it refused.
FAILED = 500


class Syncing:
    """Brings the status of quotas in line; `clock` gives seconds on a monotonic clock."""

    def __init__(self, routing: Routing, clock: Callable[[], float] = time.monotonic) -> None:
        self.figures = Figures()
        self._routing = routing
        self._notices = Notices(clock)
        self._clock = clock

    async def sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Write the status of a quota if it is not right, with one request (RQ-40 to RQ-53).

        Names whose evaluator cannot answer keep what they have, and the quota comes again when it
        can (D-15). Errors of the write are raised.
        """
        routing = self._routing
        quota = routing.quotas.get(key)
        if quota is None:
            self._notices.forget(key)
            return Done()
        routing.begun(key)
        found = routing.assess(quota, view)
        patience = routing.counting.patience(found.calculation.failed, view)
        if patience >= MOMENT_SECONDS:
            return Later(timedelta(seconds=patience))
        self._notices.tell(found, writer)
        if found.is_dirty:
            await self._write(found, view, writer)
        routing.ended(found)
        if found.decision.blocked:
            return Later(timedelta(seconds=found.decision.wait_seconds))
        return Done()

    async def _write(self, found: Assessment, view: View, writer: Writer) -> None:
        """Write the status that was found to be due, in the version that it was compared with."""
        key = found.quota.key
        quotas = view.of(RESOURCE_QUOTA, QuotaObject)
        whole = quotas.whole(key.name, key.namespace)
        # An unreadable version is newer than the one that was compared.
        if whole is None or key in quotas.undecodable(key.namespace):
            return
        total = partial(self._routing.counting.total, found.quota, found.plan)
        status = status_of(decode_object(whole, dict[str, Any]), found, total)
        settling = self._routing.settling[key]
        resync = self._routing.is_resyncing(key)
        since = settling.waiting_since
        settling.sending(found.decision, now=self._clock())
        try:
            await self._update(whole, status, writer)
        except (ApiError, Unreachable) as error:
            self.figures.conflicts += isinstance(error, Conflict)
            if not may_have_arrived(error):
                settling.refused(found.decision)
            raise
        waited = self._clock() - since if since is not None else None
        self.figures.wrote(found, resync=resync, waited_seconds=waited)

    @staticmethod
    async def _update(whole: Mapping[str, Any], status: Mapping[str, Any], writer: Writer) -> None:
        """Update the status; entries that the server finds illegal keep their old text (D-19)."""
        try:
            await writer.update(RESOURCE_QUOTA, {**whole, "status": status}, subresource="status")
        except ApiError as error:
            refused = refused_names(error, status["used"])
            if not refused:
                raise
            present = decode_object(whole, dict[str, Any])
            old = (present.get("status") or {}).get("used") or {}
            kept = {name: text for name, text in old.items() if name in refused}
            used = {name: text for name, text in status["used"].items() if name not in refused}
            log.warning("usage refused by the server", extra={"kv": {"error": str(error)}})
            status = {**status, "used": {**used, **kept}}
            await writer.update(RESOURCE_QUOTA, {**whole, "status": status}, subresource="status")


def may_have_arrived(error: ApiError | Unreachable) -> bool:
    """Whether the server may have done what was asked, although it did not say so."""
    if isinstance(error, Unreachable):
        return not error.refused
    # A server or a proxy that fails answers so also for what has already been stored.
    return error.status >= FAILED


def refused_names(error: ApiError, used: Mapping[str, str]) -> set[str]:
    """Give the entries of `status.used` that the server names as illegal (RQ-256)."""
    if error.status != INVALID:
        return set()
    return {name for name in used if f"status.used[{name}]" in str(error)}
