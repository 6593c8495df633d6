"""Paged lists, for servers without streaming lists."""

import asyncio

from kcm_host.api.errors import ApiError
from kcm_host.client.errors import decode_body, is_gone
from kcm_host.client.rest import JSON, METADATA_LIST, Client, Query
from kcm_host.informer import decoder
from kcm_host.informer.list_watch import ListWatchOptions, Sink

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
            page = await _page(client, options, query, user_agent)
        except ApiError as error:
            if not continue_token or not is_gone(error):
                raise
            sink.init()
            resource_version = ""
            page = await _page(client, options, options.selectors, user_agent)
        for count, item in enumerate(page.items or (), 1):
            sink.init_apply_item(item)
            if count % SLICE == 0:
                await asyncio.sleep(0)
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
    if not page.kind.endswith("List"):
        raise ApiError(f"list {options.path}: got a '{page.kind}', not a list", status=500)
    return page
