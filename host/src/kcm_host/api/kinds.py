"""Kinds of objects, keys of the work queue, and the resources that the API server serves."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


# `cache_hash`: kinds are keys of what is looked up for every write and every read of a view.
class Kind(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """
    One served kind of object, in watches, permissions and writes.

    `name` is the kind (`Node`), `resource` the plural in request paths (`nodes`), `group` is
    empty for the core group.
    """

    group: str
    version: str
    name: str
    resource: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


# `gc=False`: each store and queue has one for each object, and a full collection would visit all of
# them, although strings can make no cycle.
class Key(msgspec.Struct, frozen=True, gc=False):
    """
    What one sync is about: usually an object's name and namespace.

    `kind` is for plugins with several sorts of keys; the host never reads it. Equal keys are
    one entry of the queue, however often they are added.
    """

    name: str
    namespace: str = ""
    kind: str = ""

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}:{path}" if self.kind else path


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """
    One served resource in one version.

    `preferred` is true if the API server prefers this version of those of the group that have
    this resource.
    """

    kind: Kind
    verbs: frozenset[str]
    preferred: bool


class Discovery(Protocol):
    """
    The resources that the API server serves; no I/O.

    The host polls them every 30 s. A controller that has used this in `kcm_watches` is restarted
    when it would return other watches now, and `kcm_dynamic_watches` is called again after every
    change. For a group whose server does not respond, the last known resources are kept.
    """

    def serves(self, kind: Kind) -> bool:
        """Return whether this group, version and resource is served."""

    def first_served(self, *kinds: Kind) -> Kind | None:
        """Return the first of these that is served; for a kind with several versions."""

    def resources(self) -> Sequence[Resource]:
        """Return every served resource in every version, without subresources."""
