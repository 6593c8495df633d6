"""What the server serves: asked in two requests, and asked again at little cost."""

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kcm_host.api.discovery import Resource
from kcm_host.api.errors import HostError, Unreadable
from kcm_host.api.kinds import Kind
from kcm_host.client.errors import ResponseDecoder
from kcm_host.client.rest import Client

log = logging.getLogger(__name__)

KIND = "APIGroupDiscoveryList"
ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as={KIND}" for version in ("v2", "v2beta1")
)
PATHS = ("/api", "/apis")
#: Whoever serves this version did not answer, so nobody knows what it serves now.
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
    #: The one that the server prefers comes first.
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    kind: str = ""
    items: list[_Group] = []


_decode = ResponseDecoder(_Groups)

#: A group and a version of it.
Version = tuple[str, str]
Known = Mapping[Version, tuple[Resource, ...]]


class APIResources:
    """The answer to `Discovery` at one moment."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources = tuple(resources)
        self._served = frozenset(_name(resource.kind) for resource in self._resources)

    def serves(self, kind: Kind) -> bool:
        """Whether this group, version and resource is served."""
        return _name(kind) in self._served

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Give the first of these that is served."""
        return next((kind for kind in kinds if self.serves(kind)), None)

    def resources(self) -> Sequence[Resource]:
        """Give every served resource in every version."""
        return self._resources


class CachedDiscoveryClient:
    """
    Asks the server what it serves (aggregated discovery, which every supported server has).

    `present` is what it said last. Of a version whose own server did not answer it, what was
    known before is kept (RQ-231).
    """

    def __init__(self, client: Client, *, agent: str) -> None:
        self.present = APIResources()
        self._client = client
        self._agent = agent
        self._tags: dict[str, str] = {}
        self._known: dict[str, Known] = {}
        self._trouble = ""

    async def ask(self) -> bool:
        """
        Bring `present` up to date and say whether it is another now.

        Raises `HostError`, also when the answer is something else; then nothing has changed.
        """
        tags, known = dict(self._tags), dict(self._known)
        # One after the other: together, the failure of one would leave the other running alone.
        for path in PATHS:
            answer = await self._client.conditional_get(
                path, tag=tags.get(path, ""), agent=self._agent, accept=ACCEPT
            )
            if answer is not None:
                known[path] = _known(path, answer.body, self._known.get(path, {}))
                tags[path] = answer.tag
        changed = known != self._known
        self._tags, self._known = tags, known
        if changed:
            versions = (version for path in PATHS for version in known[path].values())
            self.present = APIResources(itertools.chain.from_iterable(versions))
        return changed

    async def refresh(self) -> bool:
        """Do as `ask`; what goes wrong is logged, once as long as it stays the same (RQ-232)."""
        trouble = ""
        try:
            return await self.ask()
        except HostError as error:
            trouble = str(error)
            if trouble != self._trouble:
                log.warning("discovery failed, trying again", extra={"kv": {"error": trouble}})
            return False
        finally:
            self._trouble = trouble


def _known(path: str, body: bytes, before: Known) -> Known:
    """Give what an answer says; that nothing at all is left is not believed."""
    known: dict[Version, tuple[Resource, ...]] = {}
    answer = _decode(body, f"get {path}")
    if answer.kind != KIND:
        raise Unreadable(
            f"{path} answered with a {answer.kind[:60]!r} where {KIND!r} was asked for; see that "
            f"the server is Kubernetes 1.27 or newer, and that no proxy changes the Accept header"
        )
    for group in answer.items:
        taken: set[str] = set()
        for version in group.versions:
            name = (group.metadata.name, version.version)
            stale = version.freshness == STALE
            found = before.get(name, ()) if stale else _resources(name, version)
            known[name] = tuple(_ranked(found, taken))
    if any(before.values()) and not any(known.values()):
        raise HostError(f"{path} names no resource any more; what was known is kept")
    return known


def _resources(name: Version, version: _Version) -> Iterator[Resource]:
    group, number = name
    for one in version.resources:
        # Without a kind there are subresources only.
        if one.response_kind is not None and one.response_kind.kind:
            namespaced = one.scope == NAMESPACED
            kind = Kind(group, number, one.response_kind.kind, one.resource, namespaced)
            yield Resource(kind, frozenset(one.verbs), preferred=False)


def _ranked(found: Iterable[Resource], taken: set[str]) -> Iterator[Resource]:
    """Give a version's resources, preferred those that no better version of the group has."""
    for resource in found:
        preferred = resource.kind.resource not in taken
        taken.add(resource.kind.resource)
        yield Resource(resource.kind, resource.verbs, preferred)


def _name(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.resource
