"""What a stream is about, and where its objects go."""

import random
from collections.abc import Iterator
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Kind
from kcm_host.client.paths import collection
from kcm_host.client.rest import Query
from kcm_host.informer.decoder import PartialObject

#: The server ends a watch after a random time between these, so that not all end together.
TIMEOUT_SECONDS = (300, 600)


class Sink(Protocol):
    """Where a stream's objects go; called in order, never concurrently."""

    def init(self) -> None:
        """Start to gather a complete set; forget one that was begun before."""

    def init_apply(self, event_type: str, line: bytes, head: PartialObject) -> None:
        """Take one event of the set that is being gathered."""

    def init_apply_item(self, item: msgspec.Raw) -> None:
        """Take one list item of the set that is being gathered."""

    def init_done(self) -> Iterator[None]:
        """
        Put the gathered set in place of the present one, when iterated to its end.

        It yields where others may be heard; nothing else is handed over meanwhile.
        """

    def event(self, event_type: str, line: bytes, head: PartialObject) -> None:
        """Take one ADDED, MODIFIED or DELETED event."""


class ListWatchOptions(msgspec.Struct, frozen=True):
    """What one stream is about. Equal selections are one stream."""

    kind: Kind
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind}" if self.namespace else str(self.kind)

    @property
    def path(self) -> str:
        """The path of its lists and watches."""
        return collection(self.kind, self.namespace)

    @property
    def selectors(self) -> Query:
        """The selectors as query parameters."""
        pairs = (("labelSelector", self.label_selector), ("fieldSelector", self.field_selector))
        return tuple(pair for pair in pairs if pair[1])

    def watch_query(self, version: str, *, initial: bool) -> Query:
        """Give the parameters of a watch since `version`, or of a streaming list (IQ-10, 24)."""
        streaming = (
            (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
            if initial
            else ()
        )
        since = (("resourceVersion", version),) if version else ()
        return (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(random.randrange(*TIMEOUT_SECONDS))),
            *streaming,
            *since,
            *self.selectors,
        )

    def remedy(self, error: Exception) -> str:
        """Give what a person can do about a refusal of this stream; empty for passing trouble."""
        status = error.status if isinstance(error, ApiError) else 0
        if status == 403:
            return f"; grant list and watch on '{self}' to the host's identity"
        if status == 404:
            return f"; the server does not serve '{self}': install it or disable the controller"
        if status == 401:
            return "; the credentials are refused: renew them"
        return ""
