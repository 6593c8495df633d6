"""The options of a list and watch, and the interface that receives its objects."""

import random
from collections.abc import Iterator
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Kind
from kcm_host.client.paths import collection
from kcm_host.client.rest import Query
from kcm_host.informer.decoder import PartialObject

#: The server ends a watch after a random time in this range, so that watches do not end together.
TIMEOUT_SECONDS = (300, 600)


class Sink(Protocol):
    """Receiver of a reflector's objects; its methods are called in order, never concurrently."""

    def init(self) -> None:
        """Start a complete list; discard one that was started before."""

    def init_apply(self, event_type: str, line: bytes, partial: PartialObject) -> None:
        """Add one event of a streaming list to the list that was started."""

    def init_apply_item(self, item: msgspec.Raw) -> None:
        """Add one item of a page to the list that was started."""

    def init_done(self) -> Iterator[None]:
        """
        Replace the present objects by the list that was started, when iterated to the end.

        It yields where the event loop may run other tasks; no other method is called meanwhile.
        """

    def apply(self, event_type: str, line: bytes, partial: PartialObject) -> None:
        """Apply one ADDED, MODIFIED or DELETED event of a watch."""


class ListWatchOptions(msgspec.Struct, frozen=True):
    """The objects that one informer lists and watches. Equal options may share one informer."""

    kind: Kind
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    #: Whether the host can do without these objects, so that a failure is no problem.
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}" if self.namespace else str(self.kind)

    @property
    def path(self) -> str:
        """The URL path of its lists and watches."""
        return collection(self.kind, self.namespace)

    @property
    def selectors(self) -> Query:
        """The selectors as query parameters."""
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return tuple(pair for pair in pairs if pair[1])

    def watch_query(self, resource_version: str, *, initial: bool) -> Query:
        """
        Return the query parameters of a watch since `resource_version` (IQ-24).

        With `initial` the watch begins with the present objects: a streaming list (IQ-10).
        """
        streaming = (
            (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
            if initial
            else ()
        )
        since = (("resourceVersion", resource_version),) if resource_version else ()
        return (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(random.randrange(*TIMEOUT_SECONDS))),
            *streaming,
            *since,
            *self.selectors,
        )

    def remedy(self, error: Exception, correction: str) -> str:
        """
        Return what an operator can do about `error`; empty for an error that may pass.

        `correction` is what is wrong with the kind, empty if nothing is known to be.
        """
        status = error.status if isinstance(error, ApiError) else 0
        if status == 403:
            return f"; grant list and watch on '{self}' to the host's identity"
        if status == 404 and correction:
            return f"; {correction}"
        if status == 404:
            return f"; the server does not serve '{self}': install it or disable the controller"
        if status == 401:
            return "; the credentials are refused: renew them"
        return ""
