"""What the server serves, in two requests."""

import msgspec

from kcm_host.api.kinds import Kind
from kcm_host.wire.client import Client

ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


class _Resource(msgspec.Struct):
    resource: str


class _Version(msgspec.Struct):
    version: str
    resources: list[_Resource] = []


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    items: list[_Group] = []


_decode = msgspec.json.Decoder(_Groups).decode


class ServedKinds:
    """The answer to `Discovery` at one moment."""

    def __init__(self, served: frozenset[tuple[str, str, str]]) -> None:
        self._served = served

    def serves(self, kind: Kind) -> bool:
        """Whether this group, version and resource is served."""
        return (kind.group, kind.version, kind.resource) in self._served

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Give the first of these that is served."""
        return next((kind for kind in kinds if self.serves(kind)), None)


async def discover(client: Client, *, agent: str) -> ServedKinds:
    """Ask the server what it serves (aggregated discovery, which every supported server has)."""

    async def groups(path: str) -> list[_Group]:
        body = await client.call("GET", path, verb="get", agent=agent, accept=ACCEPT)
        return _decode(body).items

    # One after the other: together, the failure of one would leave the other running alone.
    served = [*await groups("/api"), *await groups("/apis")]
    return ServedKinds(
        frozenset(
            (group.metadata.name, version.version, resource.resource)
            for group in served
            for version in group.versions
            for resource in version.resources
        )
    )
