"""Plain requests to an API server, as a person with kubectl would send them."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import urllib3
from parity.resources import RESOURCES, Ref
from parity.scenario import owned
from parity.steps import MERGE_PATCH, Ask, Body
from parity.words import NotThere, filled

from kcm_host_testing.api_server import ApiServer

#: The server takes the name of the field manager from it.
USER_AGENT = "scenario"
TOGETHER = 8
TYPES = {"patch": MERGE_PATCH, "apply": "application/apply-patch+yaml"}
METHODS = {"create": "POST", "patch": "PATCH", "apply": "PATCH", "delete": "DELETE"}
Item = dict[str, Any]


class Refused(Exception):
    """The server did not do what a scenario asked for."""


class Api:
    """A way to one API server; a context manager."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._pool = urllib3.PoolManager(
            maxsize=TOGETHER * 2,
            block=True,
            ca_certs=str(server.ca_file),
            retries=urllib3.Retry(connect=5, read=0, redirect=0, other=0, backoff_factor=0.1),
            headers={"Authorization": f"Bearer {server.admin_token}", "User-Agent": USER_AGENT},
        )

    def ask(self, ask: Ask, prefix: str) -> int:
        """
        Send a scenario's request and give the status of the answer.

        Where a word in it stands for something that is not there, nothing is sent, and it is 404.
        """
        try:
            return self._ask(ask, prefix)
        except NotThere:
            return 404

    def _ask(self, ask: Ask, prefix: str) -> int:
        ref = Ref.parse(owned(ask.ref, prefix))

        def look_up(resource: str, name: str) -> Item:
            namespace, _, name = name.rpartition("/")
            return self._item(Ref(resource, namespace or ref.namespace, name))

        ref = replace(ref, name=filled(ref.name, look_up))
        path = ref.collection if ask.verb == "create" and not ask.subresource else ref.path
        if ask.subresource:
            path += f"/{ask.subresource}"
        if ask.manager:
            path += "?" + urlencode({"fieldManager": ask.manager, "force": "true"})
        body = filled(owned(ask.body, prefix), look_up)
        if ask.verb in ("create", "apply"):
            body = _whole(ref, replace(ask, body=body))
        return self._send(METHODS[ask.verb], path, body, TYPES.get(ask.verb, "application/json"))[0]

    def ask_all(self, requests: tuple[Ask, ...], prefix: str) -> list[int]:
        """Send requests, several at a time, and give the statuses in the order of the requests."""
        with ThreadPoolExecutor(TOGETHER) as pool:
            return list(pool.map(lambda one: self.ask(one, prefix), requests))

    def items(self, resource: str) -> Iterator[Item]:
        """Return all objects of a resource, each with apiVersion and kind; none when not served."""
        known = RESOURCES[resource]
        status, body = self._send("GET", f"{known.root}/{resource}", None, "")
        if status == 404:
            return
        if status != 200:
            raise Refused(f"listing {resource} was answered with {status}: {body!r}")
        for item in json.loads(body)["items"]:
            yield {"apiVersion": known.api_version, "kind": known.kind} | item

    def _item(self, ref: Ref) -> Item:
        status, body = self._send("GET", ref.path, None, "")
        if status != 200:
            raise NotThere(f"{ref} was answered with {status}: {body!r}")
        found: Item = json.loads(body)
        return found

    def _send(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, bytes]:
        headers = {**self._pool.headers, "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(
            method, f"{self._server.url}{path}", body=data, headers=headers, timeout=60.0
        )
        return answer.status, answer.data

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        self._pool.clear()

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole(ref: Ref, ask: Ask) -> Body:
    known = RESOURCES[ref.resource]
    own: Item = {"name": ref.name} | ({"namespace": ref.namespace} if ref.namespace else {})
    metadata = {**own, **ask.body.get("metadata", {})}
    kinds = {"apiVersion": known.api_version, "kind": known.kind}
    if ask.subresource == "binding":
        kinds["kind"] = "Binding"
    return {**kinds, **ask.body, "metadata": metadata}
