"""Everything that a watch shows, with the moment at which it was shown."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson

from kcm_host_testing.api_server import ApiServer


@dataclass(frozen=True, slots=True)
class Sighting:
    """An object as the watch showed it, and when; times are those of the clock."""

    at: float
    object: Mapping[str, Any]


class Following:
    """
    A context manager: on entry a watch is opened, which begins with what is there.

    A thread reads it, so nothing is missed while the bench sends its own requests. Deletions
    are not recorded.
    """

    def __init__(self, server: ApiServer, path: str) -> None:
        self.seen: list[Sighting] = []
        self._newest: dict[str, Mapping[str, Any]] = {}
        self._path = f"{path}?watch=1"
        self._token = server.admin_token
        context = ssl.create_default_context(cafile=server.ca_file)
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", server.port, context=context, timeout=None
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._ending = False

    @property
    def newest(self) -> Mapping[str, Mapping[str, Any]]:
        """What was seen last of each object, by `namespace/name`."""
        return self._newest

    def _read(self) -> None:
        try:
            for line in self._answer:
                self._take(orjson.loads(line))
        except (OSError, http.client.HTTPException, ValueError):
            # The end of the bench cuts the connection in the middle of whatever comes.
            if not self._ending:
                raise

    def _take(self, event: Mapping[str, Any]) -> None:
        shown = event["object"]
        if event["type"] in {"ADDED", "MODIFIED"}:
            self.seen.append(Sighting(time.time(), shown))
            metadata = shown["metadata"]
            self._newest[f"{metadata['namespace']}/{metadata['name']}"] = shown

    def __enter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "bench"}
        self._connection.request("GET", self._path, headers=headers)
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            raise RuntimeError(f"GET {self._path} answered {self._answer.status}")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending = True
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=10)
        self._connection.close()
