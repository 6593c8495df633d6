"""The hooks of the resourceclaim controller."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from kcm_host.api import (
    EVENTS,
    AnyWatch,
    ControllerInfo,
    Discovery,
    Done,
    Key,
    Later,
    Metric,
    Outcome,
    Permission,
    Terminal,
    Verb,
    View,
    Watch,
    Writer,
    hookimpl,
)
from kcm_host_resourceclaim.api_version import (
    VERSIONS,
    ServedApi,
    api_for_version,
    newest_served_api,
)
from kcm_host_resourceclaim.cache import (
    BY_CLAIM,
    BY_GROUP,
    BY_OWNER,
    BY_REFERENCE,
    BY_TEMPLATE,
    CacheReader,
    State,
)
from kcm_host_resourceclaim.claim_reconciler import sync_claim
from kcm_host_resourceclaim.enqueue import CLAIM_KEY, GROUP_KEY, POD_KEY, EnqueueHandlers
from kcm_host_resourceclaim.events_metrics import TerminalError
from kcm_host_resourceclaim.models.claim import Claim, Template, owner_values, reference_values
from kcm_host_resourceclaim.models.pod import (
    POD,
    POD_GROUPS,
    ClaimOwner,
    Pod,
    PodGroup,
    referenced_claims,
    referenced_templates,
)
from kcm_host_resourceclaim.pod_reconciler import sync_group, sync_pod
from kcm_host_resourceclaim.settings import ClaimSettings

WORKERS = 50
#: Longer than a cache lags behind the server; a watch may be interrupted for longer.
RECHECK_INTERVAL = timedelta(seconds=30)
#: Verb and subresource. `binding` is no request of its own: the server asks for it beside `status`
#: when consumers or allocations change.
CLAIM_WRITES: tuple[tuple[Verb, str], ...] = (
    ("get", ""),
    ("create", ""),
    ("update", ""),
    ("delete", ""),
    ("update", "status"),
    ("update", "binding"),
)
GROUP_WRITES: tuple[tuple[Verb, str], ...] = (("get", ""), ("patch", "status"))
RECONCILERS = {POD_KEY: sync_pod, CLAIM_KEY: sync_claim, GROUP_KEY: sync_group}


class ResourceClaims:
    """
    The controller that creates claims from templates, and reserves, deallocates and deletes claims.

    A key is a pod, a claim or a PodGroup, by its `kind`. The scheduler allocates.
    """

    def __init__(self, settings: ClaimSettings) -> None:
        self._settings = settings
        self._state = State()
        #: None: no version of resource.k8s.io is served, and the controller is idle.
        self._api: ServedApi | None = None
        self._handlers: EnqueueHandlers | None = None

    @staticmethod
    @hookimpl
    def kcm_settings() -> type[ClaimSettings]:
        """Return the model of the feature switches."""
        return ClaimSettings

    @staticmethod
    @hookimpl
    def kcm_info() -> ControllerInfo:
        """
        Return the names that kube-controller-manager has, and a high number of workers.

        A sync spends nearly all its time waiting for the server (RC-3).
        """
        return ControllerInfo(
            aliases=("resourceclaim-controller", "resource-claim-controller"),
            service_account="resource-claim-controller",
            queue_name="resource_claim",
            workers=WORKERS,
        )

    @hookimpl
    def kcm_watches(self, discovery: Discovery) -> Sequence[AnyWatch]:
        """Watch pods, claims and templates, in the newest served version (RC-85, RC-86)."""
        self._api = newest_served_api(self._settings, discovery)
        if self._api is None:
            return ()
        self._handlers = EnqueueHandlers(self._api, self._state)
        return watches_for(self._api, self._handlers)

    @hookimpl
    def kcm_synced(self, view: View) -> Iterable[Key]:
        """Queue every object whose sync would do something (RC-4, RC-7)."""
        return self._handlers.on_synced(view) if self._handlers is not None else ()

    @hookimpl
    def kcm_writes(self) -> Sequence[Permission]:
        """
        Return the permissions to write claims, the status of pods and PodGroups, and Events.

        Also those to read single objects. All versions are listed: RBAC does not distinguish them.
        """
        apis = [api_for_version(version, self._settings, None) for version in VERSIONS]
        claims = [
            Permission(kind=api.claims, verb=verb, subresource=subresource)
            for api in apis
            for verb, subresource in CLAIM_WRITES
        ]
        groups = [
            Permission(kind=kind, verb=verb, subresource=subresource)
            for kind in (POD_GROUPS if self._settings.workload_claims else ())
            for verb, subresource in GROUP_WRITES
        ]
        pods = [
            Permission(kind=POD, verb="get"),
            Permission(kind=POD, verb="patch", subresource="status"),
        ]
        return [*claims, *groups, *pods, *EVENTS]

    @hookimpl
    async def kcm_sync(self, key: Key, view: View, writer: Writer) -> Outcome:
        """
        Reconcile a pod, a claim or a PodGroup; what the settings forbid is a terminal failure.

        The key is synced again after a while if the result relied on an object that no cache has.
        """
        cache = self._cache(view)
        reconcile = RECONCILERS.get(key.kind)
        if cache is None or reconcile is None:
            raise ValueError(f"key '{key}' is of no kind that is synced here; it must be a bug")
        outcome: Outcome = Done()
        try:
            await reconcile(Key(key.name, key.namespace), cache, writer)
        except TerminalError as error:
            outcome = Terminal(str(error))
        return Later(RECHECK_INTERVAL) if cache.relies_on_live_read else outcome

    @hookimpl
    def kcm_metrics(self) -> Sequence[Metric]:
        """Return the counts of create requests and of claims (RC-75, RC-76)."""
        return [self._state.creations.metric(), self._state.claim_counts.metric()]

    @hookimpl
    def kcm_status(self, view: View) -> Mapping[str, Any]:
        """Return the versions in use and the number of claims; `apiVersion` is None when idle."""
        api, cache = self._api, self._cache(view)
        if api is None or cache is None:
            return {"apiVersion": None}
        return {
            "apiVersion": api.claims.api_version,
            "podGroups": api.groups.api_version if api.groups is not None else None,
            "claims": cache.claim_count(),
            "createdAndNotSeen": len(self._state.created),
        }

    def _cache(self, view: View) -> CacheReader | None:
        return CacheReader(view, self._api, self._state) if self._api is not None else None


def watches_for(api: ServedApi, handlers: EnqueueHandlers) -> list[AnyWatch]:
    """Return the watches; that of PodGroups when they are switched on and served (RC-4)."""
    references = {BY_CLAIM: _claim_values, BY_TEMPLATE: _template_values}
    watches: list[AnyWatch] = [
        Watch(
            kind=POD,
            model=Pod,
            keys=handlers.on_pod,
            indexes={**references, **({BY_GROUP: _group_value} if api.groups is not None else {})},
            resync=partial(_queue_key, POD_KEY),
        ),
        Watch(
            kind=api.claims,
            model=Claim,
            keys=handlers.on_claim,
            indexes={BY_OWNER: owner_values, BY_REFERENCE: reference_values},
            full_object=True,
            resync=partial(_queue_key, CLAIM_KEY),
        ),
        Watch(
            kind=api.templates,
            model=Template,
            keys=handlers.on_template,
        ),
    ]
    if api.groups is not None:
        watches.append(
            Watch(
                kind=api.groups,
                model=PodGroup,
                keys=handlers.on_group,
                indexes=references if api.workload_claims else {},
                # Without workload claims PodGroups are only looked up for pods, and never synced.
                resync=partial(_queue_key, GROUP_KEY) if api.workload_claims else None,
            )
        )
    return watches


def _queue_key(kind: str, key: Key) -> Key:
    """Return the key of the work queue for an object."""
    return Key(key.name, key.namespace, kind)


def _claim_values(key: Key, owner: ClaimOwner) -> list[str]:
    return [f"{key.namespace}/{name}" for name in referenced_claims(owner)]


def _template_values(key: Key, owner: ClaimOwner) -> list[str]:
    return [f"{key.namespace}/{name}" for name in referenced_templates(owner)]


def _group_value(key: Key, pod: Pod) -> tuple[str, ...]:
    return (f"{key.namespace}/{pod.pod_group_name}",) if pod.pod_group_name else ()
