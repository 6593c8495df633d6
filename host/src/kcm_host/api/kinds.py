"""Kinds of objects, and keys of the work queue."""

import msgspec


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
