"""All objects of a selection page by page, for servers without streaming lists."""

import asyncio

from kcm_host.api.errors import ApiError
from kcm_host.client.errors import decoded, is_gone
from kcm_host.client.rest import JSON, METADATA_LIST, Client, Query
from kcm_host.informer import decoder
from kcm_host.informer.list_watch import ListWatchOptions, Sink

PAGE = 500
#: So many objects are decoded before the event loop is heard again.
SLICE = 100


async def paged_list(client: Client, selection: ListWatchOptions, sink: Sink, *, agent: str) -> str:
    """
    Gather all objects in `sink` and give the list's version, that of its first page (IQ-18).

    No resourceVersion is sent: with `0` the server ignores the limit and answers with everything
    at once. A page that has expired meanwhile leads to one full list instead (IQ-19).
    """
    sink.init()
    query: Query = (("limit", str(PAGE)), *selection.selectors)
    version = token = ""
    while True:
        try:
            page = await _page(client, selection, query, agent)
        except ApiError as error:
            if not token or not is_gone(error):
                raise
            sink.init()
            version = ""
            page = await _page(client, selection, selection.selectors, agent)
        for count, item in enumerate(page.items or (), 1):
            sink.init_apply_item(item)
            if count % SLICE == 0:
                await asyncio.sleep(0)
        version = version or page.metadata.resource_version
        token = page.metadata.continue_
        if not token:
            return version
        query = (("limit", str(PAGE)), ("continue", token), *selection.selectors)


async def _page(
    client: Client, selection: ListWatchOptions, query: Query, agent: str
) -> decoder.Page:
    accept = METADATA_LIST if selection.metadata_only else JSON
    body = await client.call(
        "GET", selection.path, verb="list", agent=agent, query=query, accept=accept
    )
    page = decoded(decoder.page, body, f"list {selection.path}")
    if not page.kind.endswith("List"):
        raise ApiError(f"list {selection.path}: got a '{page.kind}', not a list", status=500)
    return page
