"""The hooks of the resourceclaim controller."""

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from kcm_host.api import (
    EVENT,
    AnyWatch,
    Discovery,
    Done,
    Key,
    Later,
    Metric,
    Outcome,
    Permission,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_resourceclaim.api_version import VERSIONS, Api, api_of, served_api
from kcm_host_resourceclaim.cache import (
    BY_CLAIM,
    BY_GROUP,
    BY_JUDGE,
    BY_OWNER,
    BY_TEMPLATE,
    Known,
    Memory,
)
from kcm_host_resourceclaim.claim_reconciler import sync_claim
from kcm_host_resourceclaim.enqueue import CLAIM_KEY, GROUP_KEY, POD_KEY, Wakeups
from kcm_host_resourceclaim.errors import PermanentProblem
from kcm_host_resourceclaim.models.claim import Claim, Template
from kcm_host_resourceclaim.models.pod import (
    POD,
    POD_GROUPS,
    Holder,
    Pod,
    PodGroup,
    claim_names,
    template_names,
)
from kcm_host_resourceclaim.ownership import judge_values, owner_values
from kcm_host_resourceclaim.pod_reconciler import sync_group, sync_pod
from kcm_host_resourceclaim.settings import Settings

log = logging.getLogger(__name__)


def watches_of(api: Api, memory: Memory) -> list[AnyWatch]:
    """Give the watches; PodGroups are among them when they are switched on and served (RC-4)."""
    wakeups = Wakeups(api, memory, watches=3 if api.groups is None else 4)
    by_reference = {BY_CLAIM: _claims, BY_TEMPLATE: _templates}
    watches: list[AnyWatch] = [
        Watch(
            kind=POD,
            model=Pod,
            keys=wakeups.pod,
            synced=wakeups.synced,
            indexes={**by_reference, **({BY_GROUP: _group} if api.groups is not None else {})},
            resync=partial(_queued_as, POD_KEY),
        ),
        Watch(
            kind=api.claims,
            model=Claim,
            keys=wakeups.claim,
            synced=wakeups.synced,
            indexes={BY_OWNER: owner_values, BY_JUDGE: judge_values},
            whole=True,
            resync=partial(_queued_as, CLAIM_KEY),
        ),
        Watch(kind=api.templates, model=Template, keys=wakeups.template, synced=wakeups.synced),
    ]
    if api.groups is not None:
        watches.append(
            Watch(
                kind=api.groups,
                model=PodGroup,
                keys=wakeups.group,
                synced=wakeups.synced,
                indexes=by_reference if api.group_claims else {},
                # Without the switch PodGroups are followed for their pods' sake, and are no keys.
                resync=partial(_queued_as, GROUP_KEY) if api.group_claims else None,
            )
        )
    return watches


def _queued_as(kind: str, key: Key) -> Key:
    """Give the key of the work queue for an object."""
    return Key(key.name, key.namespace, kind)


def _claims(key: Key, holder: Holder) -> tuple[str, ...]:
    return tuple(f"{key.namespace}/{name}" for name in claim_names(holder))


def _templates(key: Key, holder: Holder) -> tuple[str, ...]:
    return tuple(f"{key.namespace}/{name}" for name in template_names(holder))


def _group(key: Key, pod: Pod) -> tuple[str, ...]:
    return (f"{key.namespace}/{pod.group_name}",) if pod.group_name else ()


WORKERS = 50
#: A store is behind for much less, or its watch is broken for longer.
LOOK_AGAIN = timedelta(seconds=30)
#: Verb and subresource. `binding` is no request of its own: the server asks for it beside `status`
#: when consumers or allocations change.
CLAIM_WRITES = (
    ("get", ""),
    ("create", ""),
    ("update", ""),
    ("delete", ""),
    ("update", "status"),
    ("update", "binding"),
)
SYNCS = {POD_KEY: sync_pod, CLAIM_KEY: sync_claim, GROUP_KEY: sync_group}


class ResourceClaims:
    """
    Makes the claims that pods ask for by template, reserves, deallocates and deletes claims.

    A key is a pod, a claim or a PodGroup; which, is its `kind`. Allocating is the scheduler's.
    """

    def __init__(self) -> None:
        self._memory = Memory()
        #: None: no version of resource.k8s.io is served, and there is nothing to do.
        self._api: Api | None = None

    @hookimpl
    def kcm_settings(self) -> type[Settings]:
        """Give the feature switches."""
        return Settings

    @hookimpl
    def kcm_workers(self) -> int:
        """Sync many keys at a time: nearly all a sync does is wait for the server (RC-3)."""
        return WORKERS

    @hookimpl
    def kcm_watches(self, settings: Settings, discovery: Discovery) -> Sequence[AnyWatch]:
        """Follow pods, claims and templates, in the version that is served (RC-85, RC-86)."""
        self._api = served_api(settings, discovery)
        return watches_of(self._api, self._memory) if self._api is not None else ()

    @hookimpl
    def kcm_writes(self, settings: Settings) -> Sequence[Permission]:
        """
        Write claims, the status of pods and PodGroups, and events; ask for single objects.

        In every version that may be in use: to RBAC they are the same.
        """
        apis = [api_of(version, settings, None) for version in VERSIONS]
        claims = [
            Permission(api.claims, verb, subresource)
            for api in apis
            for verb, subresource in CLAIM_WRITES
        ]
        groups = [
            Permission(kind, verb, subresource)
            for kind in (POD_GROUPS if settings.workload_claims else ())
            for verb, subresource in (("get", ""), ("patch", "status"))
        ]
        pods = [Permission(POD, "get"), Permission(POD, "patch", "status")]
        events = [Permission(EVENT, "create"), Permission(EVENT, "patch")]
        return [*claims, *groups, *pods, *events]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Bring a pod, a claim or a PodGroup up to date; what settings forbid is not retried.

        Whatever was left as it is because of an object that no store shows is looked at again.
        """
        known = self._known(view)
        sync = SYNCS.get(key.kind)
        if known is None or sync is None:
            raise ValueError(f"key '{key}' is of no kind that is synced here; it must be a bug")
        try:
            await sync(Key(key.name, key.namespace), known, writer)
        except PermanentProblem as problem:
            pairs = {"key": str(key), "problem": str(problem)}
            log.warning("sync given up, settings forbid it", extra={"kv": pairs})
        return Later(LOOK_AGAIN) if known.relies_on_server else Done()

    @hookimpl
    def kcm_metrics(self) -> Sequence[Metric]:
        """Give the counts of creations and claims (RC-75, RC-76)."""
        return [self._memory.creations.metric(), self._memory.counts.metric()]

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Say which versions are in use, and how much is known; `apiVersion` is None when idle."""
        api, known = self._api, self._known(view)
        if api is None or known is None:
            return {"apiVersion": None}
        return {
            "apiVersion": api.claims.api_version,
            "podGroups": api.groups.api_version if api.groups is not None else None,
            "claims": known.claim_count(),
            "createdAndNotSeen": len(self._memory.created),
        }

    def _known(self, view: View) -> Known | None:
        return Known(view, self._api, self._memory) if self._api is not None else None
