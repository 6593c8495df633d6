"""What the documentation of kopf advises for many objects and many changes."""

from typing import Any

import aiohttp
import kopf

# More than the plugin has workers: a limit must not be what its delays come from.
CONNECTIONS = 50


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Set what differs from the defaults, each for a reason."""
    # New users are advised to have the first list streamed, which saves memory.
    settings.watching.initial_streaming = True
    # An Event for each change would be a second write; nobody reads them here.
    settings.posting.enabled = False
    # There is no other operator that this one would have to give way to.
    settings.peering.standalone = True
    # Resources and namespaces are known, so definitions of others need no watch.
    settings.scanning.disabled = True
    # For built-in resources, annotations are advised: their status has no place for it.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    # The default lets a request that hangs take five minutes before it is tried again.
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    # `queueing.worker_limit` stays None, the default: a worker keeps its place for `idle_timeout`
    # after the last change of its object, so with a limit others would wait for places.
    # `queueing.batch_window` has no effect any more: this version handles each change at once.


@kopf.on.login()
async def login(settings: kopf.OperatorSettings, **_: Any) -> kopf.AiohttpSession:
    """Return a session with a limit of connections, as documented for a limit of requests."""
    # Without one, 20,000 objects at the start open 20,000 connections at the same time.
    found = kopf.login_with_kubeconfig(settings=settings)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=found.as_ssl_context()),
        headers=found.as_http_headers(),
    )
    return kopf.AiohttpSession(
        aiohttp_session=session, server=found.server, default_namespace=found.default_namespace
    )
