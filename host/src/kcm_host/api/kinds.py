"""Names of things: kinds of objects, and keys of work."""

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """
    One served kind of object, as a plugin names it in watches, permissions and writes.

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
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class Key(msgspec.Struct, frozen=True, gc=False):
    """
    What one sync is about: usually an object's name and namespace (IQ-55).

    `kind` is free for plugins whose keys are of several sorts; the host never reads it. Equal
    keys are one piece of work, however often they are queued.
    """

    name: str
    namespace: str = ""
    kind: str = ""

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}:{path}" if self.kind else path
