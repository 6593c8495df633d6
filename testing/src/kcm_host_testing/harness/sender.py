"""The sender of the harness: carries out writes on its objects, and records them."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from kcm_host.api import ApiError, HostError, Key, Kind, Unreachable, Write, WriteResponse
from kcm_host.client.errors import error_of_response
from kcm_host_testing.harness.errors import HarnessError, Refused
from kcm_host_testing.harness.objects import Objects, Written

ErrorName = Literal["Conflict", "NotFound", "Forbidden", "Unreachable"]
_STATUSES = {"Conflict": 409, "NotFound": 404, "Forbidden": 403}
_CREATED = 201
_APPLY = "application/apply-patch+yaml"


class RecordedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """
    One write of the controller.

    `verb` is `create`, `update`, `patch`, `apply` or `delete`; `key` has the generated name of a
    created object. `body` is what was sent, `error` the text of an error response.
    """

    verb: str
    kind: Kind
    key: Key
    subresource: str = ""
    body: Any = None
    field_manager: str = ""
    error: str = ""

    def __str__(self) -> str:
        resource = f"{self.kind}/{self.subresource}" if self.subresource else str(self.kind)
        failed = f": {self.error}" if self.error else ""
        return f"{self.verb} {resource} {self.key}{failed}"


class RecordedRead(NamedTuple):
    """One request for a single object (`Writer.read`)."""

    kind: Kind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class _Expected(msgspec.Struct, kw_only=True):
    verb: str
    kind: Kind | None
    key: Key | None
    left: int

    def matches(self, write: Write, verb: str) -> bool:
        """Return whether it is for this request."""
        return (
            self.verb in ("", verb)
            and self.kind in (None, write.kind)
            and self.key in (None, write.key)
        )


class Answer(_Expected):
    """An error for the next matching requests; `left` is how many of them are still to come."""

    error: ErrorName | HostError
    is_done: bool

    def exception(self, operation: str) -> HostError:
        """Return the exception that the writer raises."""
        if isinstance(self.error, HostError):
            return self.error
        if self.error == "Unreachable":
            return Unreachable(f"{operation}: connection lost (answer of the test)")
        text = f"{operation}: {self.error} (answer of the test)"
        return _api_error(_STATUSES[self.error], self.error, text, operation=operation)


class BeforeResponse(_Expected):
    """A function to call between the next matching requests and their responses."""

    call: Callable[[], Awaitable[None]]


_E = TypeVar("_E", bound=_Expected)


class RecordingSender:
    """A `Sender` that changes the objects of the harness, and records its requests."""

    def __init__(
        self,
        objects: Objects,
        serves: Callable[[Kind], bool],
        *,
        writes: list[RecordedWrite],
        reads: list[RecordedRead],
    ) -> None:
        self.answers: list[Answer] = []
        self.before_response: list[BeforeResponse] = []
        #: The error of a request that only a server can answer, also if the sync has caught it.
        self.failure: HarnessError | None = None
        self._objects = objects
        self._serves = serves
        self._writes = writes
        self._reads = reads

    async def send(self, write: Write) -> WriteResponse:
        """See `Sender.send`."""
        verb = "apply" if write.content_type == _APPLY else write.verb
        operation = f"{verb} {write.kind} '{write.key}'"
        answer = _next(self.answers, write, verb)
        key = write.key
        error = ""
        try:
            if answer is not None and not answer.is_done:
                raise answer.exception(operation)
            written = self._carry_out(write, operation)
            key = Key(written.body["metadata"]["name"], write.key.namespace)
            if answer is not None:
                raise answer.exception(operation)
        except HostError as raised:
            error = str(raised)
            raise
        finally:
            self._record(write, verb, key, error=error)
            called = _next(self.before_response, write, verb)
            if called is not None:
                await called.call()
        return _response(write, written)

    def _record(self, write: Write, verb: str, key: Key, error: str) -> None:
        if verb == "get":
            self._reads.append(RecordedRead(write.kind, key))
            return
        record = RecordedWrite(
            verb=verb,
            kind=write.kind,
            key=key,
            subresource=write.subresource,
            body=msgspec.json.decode(write.body) if write.body else None,
            field_manager=dict(write.query).get("fieldManager", ""),
            error=error,
        )
        self._writes.append(record)

    def _carry_out(self, write: Write, operation: str) -> Written:
        try:
            return self._change(write)
        except Refused as refused:
            raise _api_error(
                refused.status, refused.reason, str(refused), operation=operation
            ) from None
        except HarnessError as failure:
            self.failure = failure
            raise

    def _change(self, write: Write) -> Written:
        objects, kind, key, subresource = self._objects, write.kind, write.key, write.subresource
        if not self._serves(kind):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        body = msgspec.json.decode(write.body) if write.body else {}
        match write.verb:
            case "get":
                return Written(objects.get(kind, key))
            case "create":
                return objects.create(kind, body, key.namespace)
            case "update":
                return objects.update(kind, key, body, subresource=subresource)
            case "delete":
                return objects.delete(kind, key, body.get("preconditions") or {})
        return self._patch(write, body)

    def _patch(self, write: Write, body: Any) -> Written:
        objects, kind, key, subresource = self._objects, write.kind, write.key, write.subresource
        match write.content_type:
            case "application/merge-patch+json":
                return objects.merge(kind, key, body, subresource=subresource)
            case "application/json-patch+json":
                return objects.patch_json(kind, key, body, subresource=subresource)
            case "application/strategic-merge-patch+json":
                return objects.patch_strategic(kind, key, body, subresource=subresource)
            case "application/apply-patch+yaml":
                query = dict(write.query)
                return objects.apply(
                    kind,
                    key,
                    body,
                    manager=query["fieldManager"],
                    force=query.get("force") == "true",
                    subresource=subresource,
                )
        raise HarnessError(f"the harness does not know this request: {write!r}")


def _next(expected: list[_E], write: Write, verb: str) -> _E | None:
    """Return what is expected of this request, and count it; what is used up is removed."""
    found = next((each for each in expected if each.matches(write, verb)), None)
    if found is not None:
        found.left -= 1
        if not found.left:
            expected.remove(found)
    return found


def _response(write: Write, written: Written) -> WriteResponse:
    meta = written.body["metadata"]
    is_status = written.is_removed and write.verb == "delete"
    return WriteResponse(
        resource_version="" if is_status else meta["resourceVersion"],
        uid=meta["uid"],
        body=msgspec.json.encode(written.body) if write.full_object else b"",
        status=_CREATED if written.is_created else 200,
        name=meta["name"],
        deleted=written.is_removed,
    )


def _api_error(status: int, reason: str, message: str, operation: str) -> ApiError:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
    return error_of_response(status, msgspec.json.encode(body), operation=operation)
