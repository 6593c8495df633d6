"""Everything that a watch shows, with the moment at which it was shown."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson

from bench.outcome import WrongOutcome
from kcm_host_testing.api_server import ApiServer

PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.05
Keep = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is kept of an object, and when the watch showed it; times are those of the clock."""

    at: float
    object: Mapping[str, Any]


class Following:
    """
    A context manager: on entry a watch is opened, which begins with what is there.

    A thread reads it, so nothing is missed while the bench sends its own requests. The API server
    ends the watch of a client that is slow, as on a busy machine; then it is opened again where it
    ended. Deletions are not recorded.

    `keep` returns what is kept of an object, with its name and namespace; a small part saves memory
    where there are many.
    """

    def __init__(self, server: ApiServer, path: str, keep: Keep = lambda shown: shown) -> None:
        self.seen: list[Sighting] = []
        self._keep = keep
        self._newest: dict[str, Mapping[str, Any]] = {}
        self._version = 0
        self._failure: Exception | None = None
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
        """What was seen last of each object, by `namespace/name`; raises when the watch failed."""
        if self._failure is not None:
            raise WrongOutcome(f"the watch of {self._path} failed") from self._failure
        return self._newest

    def wait_for(self, count: int) -> None:
        """Return when so many objects were shown."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.newest) < count:
            if time.monotonic() > deadline:
                raise WrongOutcome(f"the watch showed {len(self._newest)} of {count} objects only")
            time.sleep(POLL_SECONDS)

    def _read(self) -> None:
        try:
            while not self._ending:
                for line in self._answer:
                    self._take(orjson.loads(line))
                self._connection.close()
                self._open(f"{self._path}&resourceVersion={self._version}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader of `newest` gets it
            # The end of the bench cuts the connection in the middle of whatever comes.
            self._failure = None if self._ending else error

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise RuntimeError(str(event["object"]))
        self._version = max(self._version, int(event["object"]["metadata"]["resourceVersion"]))
        if event["type"] in {"ADDED", "MODIFIED"}:
            shown = self._keep(event["object"])
            self.seen.append(Sighting(time.time(), shown))
            metadata = shown["metadata"]
            self._newest[f"{metadata['namespace']}/{metadata['name']}"] = shown

    def __enter__(self) -> Self:
        self._open(self._path)
        self._thread.start()
        return self

    def _open(self, path: str) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "bench"}
        self._connection.request("GET", path, headers=headers)
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            raise RuntimeError(f"GET {path} answered {self._answer.status}")

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
