"""The resources that the harness serves."""

from collections.abc import Iterable, Sequence

from kcm_host.api import Kind, Resource
from kcm_host_testing.harness.errors import HarnessError

VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})


class ServedKinds:
    """
    A `Discovery` of the kinds that a test has named.

    Without any, each kind that is asked for is served, unless it was removed.
    """

    def __init__(self, served: Iterable[Kind] | None) -> None:
        self._is_open = served is None
        self._served: dict[Kind, None] = {}
        self._removed: set[Kind] = set()
        #: The kinds that `kcm_watches` or `kcm_dynamic_watches` has asked for.
        self.asked: set[Kind] = set()
        for kind in served or ():
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind; raise `HarnessError` if another version of its resource is served."""
        for other in self._served:
            same = (other.group, other.resource) == (kind.group, kind.resource)
            if same and other.version != kind.version:
                raise HarnessError(
                    f"'{kind}' is served in version {other.version} already, and the harness does "
                    f"not convert objects to {kind.version}; test this on a server"
                )
        self._served[kind] = None
        self._removed.discard(kind)

    def remove(self, kind: Kind) -> None:
        """Serve a kind no longer."""
        self._served.pop(kind, None)
        self._removed.add(kind)

    def is_served(self, kind: Kind) -> bool:
        """Return whether a kind is served; one of the first use is from now on."""
        if self._is_open and kind not in self._removed and kind not in self._served:
            self.add(kind)
        return kind in self._served

    def serves(self, kind: Kind) -> bool:
        """See `Discovery.serves`."""
        return self.first_served(kind) is not None

    def first_served(self, *kinds: Kind) -> Kind | None:
        """See `Discovery.first_served`."""
        self.asked.update(kinds)
        return next((kind for kind in kinds if self.is_served(kind)), None)

    def resources(self) -> Sequence[Resource]:
        """See `Discovery.resources`."""
        return [Resource(kind=kind, verbs=VERBS, preferred=True) for kind in self._served]
