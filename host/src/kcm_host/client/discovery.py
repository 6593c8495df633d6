"""API resources of the server: aggregated discovery in two conditional GETs."""

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kcm_host.api.errors import HostError, Unreadable
from kcm_host.api.kinds import Kind, Resource
from kcm_host.client.errors import ResponseDecoder
from kcm_host.client.rest import Client
from kcm_host.observe.deduplication import LogOnce

log = logging.getLogger(__name__)

KIND = "APIGroupDiscoveryList"
# Both versions of aggregated discovery, the newer one first. A server without them sends a list of
# groups, and the resources of each would need a request of their own.
ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as={KIND}" for version in ("v2", "v2beta1")
)
PATHS = ("/api", "/apis")
#: The aggregated API server of this version did not respond: its resources are not known.
STALE = "Stale"
NAMESPACED = "Namespaced"


class _ResponseKind(msgspec.Struct, gc=False):
    kind: str = ""


class _Resource(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = ""
    verbs: list[str] = []


class _Version(msgspec.Struct):
    version: str
    resources: list[_Resource] = []
    freshness: str = ""


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata
    #: The preferred version comes first.
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    kind: str = ""
    items: list[_Group] = []


_decode = ResponseDecoder(_GroupList)

GroupVersion = tuple[str, str]
ResourcesByVersion = Mapping[GroupVersion, tuple[Resource, ...]]


class APIResources:
    """The API resources of the server at one moment; implements `Discovery`."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources = tuple(resources)
        self._served = {_group_version_resource(each.kind): each.kind for each in self._resources}
        self._by_name = {
            (each.kind.group, each.kind.version, each.kind.name): each.kind
            for each in self._resources
        }

    def serves(self, kind: Kind) -> bool:
        """Return whether this group, version and resource is served."""
        return _group_version_resource(kind) in self._served

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Return the first of `kinds` that is served, None without one."""
        return next((kind for kind in kinds if self.serves(kind)), None)

    def resources(self) -> Sequence[Resource]:
        """Return every served resource in every version."""
        return self._resources

    def correction(self, kind: Kind) -> str:
        """
        Return what is wrong with a declared kind, with the right word; empty without a mistake.

        A kind of which neither the resource nor the name is served may be installed later.
        """
        served = self._served.get(_group_version_resource(kind))
        if served is None:
            named = self._by_name.get((kind.group, kind.version, kind.name))
            if named is None:
                return ""
            return (
                f"'{kind}' is not served, but '{named}' of kind {named.name} is: "
                "correct the resource of the Kind"
            )
        if served.name != kind.name:
            return (
                f"'{kind}' is served as kind {served.name}, not {kind.name}: "
                "correct the name of the Kind"
            )
        if served.namespaced != kind.namespaced:
            return (
                f"objects of '{kind}' have {'a' if served.namespaced else 'no'} namespace: "
                f"write namespaced={served.namespaced} in the Kind"
            )
        return ""


class CachedDiscoveryClient:
    """
    Discovery client that caches the server's responses with their ETags.

    `api_resources` is the present result. For a version whose aggregated API server did not
    respond, the earlier resources are kept (RQ-231).
    """

    def __init__(self, client: Client, *, user_agent: str) -> None:
        self.api_resources = APIResources()
        self._client = client
        self._user_agent = user_agent
        self._etags: dict[str, str] = {}
        self._cached: dict[str, ResourcesByVersion] = {}
        self._errors = LogOnce()

    async def fetch(self) -> bool:
        """
        Update `api_resources`; return whether it has changed.

        Raise `HostError`, also when the response is no discovery document; then nothing changes.
        """
        # On copies: a failure at the second path must not leave one half newer than the other.
        etags, cached = dict(self._etags), dict(self._cached)
        # In sequence: of two concurrent requests, one would go on after the other has failed.
        for path in PATHS:
            response = await self._client.conditional_get(
                path, etag=etags.get(path, ""), user_agent=self._user_agent, accept=ACCEPT
            )
            if response is not None:
                cached[path] = _parse(path, response.body, self._cached.get(path, {}))
                etags[path] = response.etag
        changed = cached != self._cached
        self._etags, self._cached = etags, cached
        if changed:
            versions = (version for path in PATHS for version in cached[path].values())
            self.api_resources = APIResources(itertools.chain.from_iterable(versions))
        return changed

    async def poll(self) -> bool:
        """Call `fetch`; log an error, once as long as its text stays the same (RQ-232)."""
        try:
            is_changed = await self.fetch()
        except HostError as error:
            if self._errors.is_new("discovery", str(error)):
                log.warning("discovery failed, retrying", extra={"kv": {"error": str(error)}})
            return False
        self._errors.clear()
        return is_changed


def _parse(path: str, body: bytes, before: ResourcesByVersion) -> ResourcesByVersion:
    """Return the resources of a response; raise `HostError` if it has none but `before` has."""
    resources: dict[GroupVersion, tuple[Resource, ...]] = {}
    response = _decode(body, f"get {path}")
    # An old server or a proxy answers with a document of another kind, which decodes to no
    # resources: controllers would be idle and ready (F-27).
    if response.kind != KIND:
        raise Unreadable(
            f"{path} returned a {response.kind[:60]!r} where {KIND!r} was requested; check that "
            f"the server is Kubernetes 1.27 or newer, and that no proxy changes the Accept header"
        )
    for group in response.items:
        names: set[str] = set()
        for version in group.versions:
            group_version = (group.metadata.name, version.version)
            is_stale = version.freshness == STALE
            found = (
                before.get(group_version, ()) if is_stale else _resources(group_version, version)
            )
            resources[group_version] = tuple(_with_preference(found, names))
    # Rather a failure of the server than the truth: if believed, every controller would stop its
    # watches.
    if any(before.values()) and not any(resources.values()):
        raise HostError(f"{path} lists no resource any more; the earlier ones are kept")
    return resources


def _resources(group_version: GroupVersion, version: _Version) -> Iterator[Resource]:
    group, name = group_version
    for each in version.resources:
        # Without a kind there are only subresources.
        if each.response_kind is not None and each.response_kind.kind:
            namespaced = each.scope == NAMESPACED
            kind = Kind(
                group=group,
                version=name,
                name=each.response_kind.kind,
                resource=each.resource,
                namespaced=namespaced,
            )
            yield Resource(kind=kind, verbs=frozenset(each.verbs), preferred=False)


def _with_preference(found: Iterable[Resource], names: set[str]) -> Iterator[Resource]:
    """Yield the resources of a version; those not in `names`, of earlier versions, as preferred."""
    for resource in found:
        preferred = resource.kind.resource not in names
        names.add(resource.kind.resource)
        yield Resource(kind=resource.kind, verbs=resource.verbs, preferred=preferred)


def _group_version_resource(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.resource
