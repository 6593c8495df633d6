"""The options of a list and watch, the interface that receives its objects, and paged lists."""

import asyncio
import random
from collections.abc import Iterator
from typing import Protocol

import msgspec

from kcm_host.api.errors import ApiError
from kcm_host.api.kinds import Kind
from kcm_host.client.errors import decode_body, is_gone
from kcm_host.client.rest import JSON, METADATA_LIST, Client, Query, collection
from kcm_host.informer import decoder
from kcm_host.informer.decoder import PartialObject

#: The server ends a watch after a random time in this range, so that watches do not end together.
TIMEOUT_SECONDS = (300, 600)


# A protocol, so that the reflector is tested without a store, and decoding belongs to the store
# alone.
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


#: As client-go (IQ-17).
PAGE_SIZE = 500
#: Items that are decoded between two turns of the event loop.
SLICE = 100


async def paged_list(
    client: Client, options: ListWatchOptions, sink: Sink, *, user_agent: str
) -> str:
    """
    Pass all objects to `sink`; return the resourceVersion of the list, which its first page has.

    No resourceVersion is sent: with `0` the server ignores the limit and returns all objects in
    one response (IQ-18). When a continue token has expired, one full list replaces the pages
    (IQ-19).
    """
    sink.init()
    query: Query = (("limit", str(PAGE_SIZE)), *options.selectors)
    resource_version = continue_token = ""
    while True:
        try:
            page = await _page(client, options, query, user_agent=user_agent)
        except ApiError as error:
            if not continue_token or not is_gone(error):
                raise
            sink.init()
            resource_version = ""
            page = await _page(client, options, options.selectors, user_agent=user_agent)
        for count, item in enumerate(page.items or (), 1):
            sink.init_apply_item(item)
            if count % SLICE == 0:
                await asyncio.sleep(0)
        # Of the first page (IQ-18): the others are of the same snapshot, and a watch that began
        # later than it would miss changes.
        resource_version = resource_version or page.metadata.resource_version
        continue_token = page.metadata.continue_
        if not continue_token:
            return resource_version
        query = (("limit", str(PAGE_SIZE)), ("continue", continue_token), *options.selectors)


async def _page(
    client: Client, options: ListWatchOptions, query: Query, user_agent: str
) -> decoder.ListPage:
    accept = METADATA_LIST if options.metadata_only else JSON
    body = await client.call(
        "GET", options.path, verb="list", user_agent=user_agent, query=query, accept=accept
    )
    page = decode_body(decoder.decode_list_page, body, f"list {options.path}")
    # A Table or a Status decodes to a page without items, which would delete every object of the
    # store (IQ-23).
    if not page.kind.endswith("List"):
        raise ApiError(f"list {options.path}: got a '{page.kind}', not a list", status=500)
    return page
