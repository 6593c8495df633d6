"""An API server in memory, in the place of the host's client, on a virtual clock."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from generated_watch import GeneratedWatch
from worlds.objects import Event, Object, Objects, Refused, at

from kcm_host.api import Kind
from kcm_host.client.errors import error_of_response
from kcm_host.client.http.messages import Response
from kcm_host.client.rest import METADATA_ONLY, Query
from kcm_host.reconcile.requests import APPLY

#: How long a request or an event is on its way, at most.
SLOW_SECONDS = 0.05
INITIAL_END = {"k8s.io/initial-events-end": "true"}
EVENTS = Kind(group="", version="v1", name="Event", resource="events")


class Server:
    """
    What a controller run asks of `Client`, answered from memory.

    Requests, answers and events take random time, each stream for itself, so that everything can
    overtake everything that it may overtake in a cluster. Semantics are those that the five
    controllers rely on; the tests on a real server show that they hold there.
    """

    def __init__(self, kinds: Iterable[Kind], chance: random.Random) -> None:
        self._chance = chance
        self._version = 100
        self._cuts: dict[str, asyncio.Event] = {}
        self.expired: dict[str, int] = {}
        #: Writes that changed something, Events left out.
        self.writes: list[str] = []
        clock = asyncio.get_running_loop().time
        self.kinds = {
            kind.resource: Objects(kind, lambda: at(clock()), self._next_version)
            for kind in (*kinds, EVENTS)
        }

    def __getitem__(self, kind: Kind) -> Objects:
        return self.kinds[kind.resource]

    def cut(self, kind: Kind, *, expired: bool) -> None:
        """End the watches of a kind; `expired`: and let them begin with a new list."""
        if expired:
            self.expired[kind.resource] = self._version
        self._cuts.pop(kind.resource, asyncio.Event()).set()

    async def request(self, method: str, path: str, **request: Any) -> Response:
        """See `Client.answer`."""
        body = await self.call(method, path, **request)
        return Response(201 if method == "POST" else 200, body)

    async def call(self, method: str, path: str, **request: Any) -> bytes:
        """See `Client.call`."""
        await self._delay()
        before, parts = self._version, _Path(path)
        try:
            answer = self._answer(method, parts, request)
        except Refused as refused:
            body = json.dumps({"message": str(refused), "reason": refused.reason}).encode()
            raise error_of_response(refused.status, body, operation=f"{method} {path}") from None
        if self._version > before and parts.resource != EVENTS.resource:
            self.writes.append(f"{method} {path} {(request.get('body') or b'').decode()}")
        await self._delay()
        return json.dumps(answer).encode()

    @asynccontextmanager
    async def watch(
        self, path: str, *, user_agent: str, query: Query, accept: str
    ) -> AsyncIterator[GeneratedWatch]:
        """See `Client.watch`."""
        await self._delay()
        objects = self.kinds[_Path(path).resource]
        asked = dict(query)
        slim = accept == METADATA_ONLY
        since = int(asked.get("resourceVersion", "0") or 0)
        if "sendInitialEvents" not in asked:
            if since < self.expired.get(objects.kind.resource, 0):
                body = b'{"reason": "Expired", "message": "too old"}'
                raise error_of_response(410, body, operation=f"watch {path}")
            yield GeneratedWatch(self._lines(objects, since, [], slim=slim))
        else:
            initial = [Event(0, "ADDED", each) for each in objects.all()]
            end: dict[str, Any] = {
                "kind": objects.kind.name,
                "metadata": {"annotations": INITIAL_END},
            }
            end["metadata"]["resourceVersion"] = str(self._version)
            initial.append(Event(0, "BOOKMARK", end))
            yield GeneratedWatch(self._lines(objects, self._version, initial, slim=slim))

    async def _lines(
        self, objects: Objects, since: int, initial: list[Event], *, slim: bool
    ) -> AsyncIterator[bytes]:
        cut = self._cuts.setdefault(objects.kind.resource, asyncio.Event())
        for event in initial:
            yield _line(event, slim=slim)
        told = next((i for i, each in enumerate(objects.log) if each.version > since), None)
        told = len(objects.log) if told is None else told
        while not cut.is_set():
            if told == len(objects.log):
                await _first(objects.news, cut)
                continue
            await self._delay()
            yield _line(objects.log[told], slim=slim)
            told += 1

    def _answer(self, method: str, path: "_Path", request: dict[str, Any]) -> Object:
        objects = self.kinds[path.resource]
        body = json.loads(request.get("body") or b"{}")
        match method:
            case "GET":
                found = objects.get(path.name, path.namespace)
                if found is None:
                    raise Refused(404, "NotFound")
                return found
            case "POST":
                return objects.create(body, path.namespace)
            case "PUT":
                return objects.update(body, path.subresource)
            case "PATCH":
                body = {k: v for k, v in body.items() if k not in ("apiVersion", "kind")}
                if body.get("metadata", {}).get("name"):
                    body["metadata"] = {
                        k: v for k, v in body["metadata"].items() if k not in ("name", "namespace")
                    }
                if request["content_type"] == APPLY and not path.subresource:
                    return objects.apply(path.name, path.namespace, body)
                return objects.patch(path.name, path.namespace, body, path.subresource)
            case "DELETE":
                wanted = body.get("preconditions", {})
                uid, version = wanted.get("uid", ""), wanted.get("resourceVersion", "")
                return objects.delete(path.name, path.namespace, uid=uid, version=version)
        raise AssertionError(method)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    async def _delay(self) -> None:
        await asyncio.sleep(self._chance.random() * SLOW_SECONDS)


class _Path:
    """A request path in its parts."""

    def __init__(self, text: str) -> None:
        parts = text.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        self.namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            self.namespace, rest = rest[1], rest[2:]
        self.resource, self.name, self.subresource = [*rest, "", ""][:3]


def _line(event: Event, *, slim: bool) -> bytes:
    body = event.object
    if slim:
        body = {"kind": "PartialObjectMetadata", "metadata": body["metadata"]}
    return json.dumps({"type": event.type, "object": body}).encode()


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
