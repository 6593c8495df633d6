"""What a controller may write, and the one way to do it."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from kcm_host.api.kinds import Key, Kind


class Permission(msgspec.Struct, frozen=True):
    """
    One thing a controller writes, in the words of RBAC.

    `verb` is the RBAC verb the server checks: `patch` for patches and applies alike, `get` for
    `Writer.read`. Whoever uses `Writer.event` declares `create` and `patch` on `EVENT`. Verbs that
    only widen what a write may contain (`escalate`) are declared too: the permissions shown to
    the operator are derived from this list.
    """

    kind: Kind
    verb: str
    subresource: str = ""


#: What `Writer.event` writes.
EVENT = Kind("", "v1", "Event", "events")


class Write(msgspec.Struct, frozen=True):
    """One intended request, as handed to the sender."""

    kind: Kind
    #: Of a creation with a generated name: the part of the name that is known.
    key: Key
    #: As RBAC calls it: create, update, patch, delete, or get for a single read.
    verb: str
    body: bytes = b""
    content_type: str = ""
    subresource: str = ""
    #: Query parameters, in the order they are sent.
    query: tuple[tuple[str, str], ...] = ()
    #: Whether the whole object is wanted as answer, instead of its version alone.
    whole: bool = False


#: The HTTP status of an answer to what made a new object.
CREATED = 201


class Receipt(msgspec.Struct, frozen=True):
    """
    What the server answered to a write: the version the object has now, and itself if asked.

    `status` is the HTTP status, `name` that of the object, also a generated one.
    """

    version: str = ""
    uid: str = ""
    #: How often it was sent: more than once when the server asked for patience.
    attempts: int = 1
    body: bytes = b""
    status: int = 200
    name: str = ""
    #: The object is gone by this write: a deletion, or the end of its last finalizer. `version`
    #: is then one from before it.
    deleted: bool = False

    @property
    def created(self) -> bool:
        """Whether the object is new by this write."""
        return self.status == CREATED


class Writer(Protocol):
    """
    The only way from a sync to a request.

    Every method sends one request and returns when the server has answered. A write that
    `kcm_writes` does not declare raises `UndeclaredWrite` and sends nothing; so does one to no
    single object (an empty name, a missing namespace), which raises `InvalidKey`. An error answer
    raises `ApiError`, a lost connection `Unreachable`; let them pass, and the key is retried.
    A 429, or a 5xx that says when to come back, is waited for and tried again, up to ten times
    (IQ-111); meanwhile no other write of this controller goes out.
    """

    async def patch(
        self, kind: Kind, key: Key, body: Mapping[str, Any], *, subresource: str = ""
    ) -> Receipt:
        """Send a strategic merge patch; `body` holds the changed fields alone."""

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> Receipt:
        """
        Send a server-side apply; apiVersion, kind and name are added to `body` here.

        `field_manager` becomes the owner of every field in `body`; `force` takes fields from
        their present owners. Applying to a name that does not exist creates it, so the server
        asks for the `create` permission then (CRA-57); with a subresource it is an error instead.
        An object that the sync has read is applied to by its uid: when it is gone since, that is a
        `Conflict`, and nothing is created.
        """

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        """
        Create an object and give it as the server made it, in the form of `Objects.whole`.

        apiVersion and kind are added to `body` here; its metadata holds `name` or `generateName`.
        """

    async def update(
        self, kind: Kind, whole: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """
        Replace an object by `whole` and give it as the server stored it, in the same form.

        `whole` is what `Objects.whole` gave, changed. It goes with its resourceVersion: raises
        `Conflict` when the object has changed since. After a conflict the key is not synced again
        before the store shows another version, or a second has passed.
        """

    async def delete(self, kind: Kind, key: Key, *, uid: str = "", version: str = "") -> None:
        """Delete an object, if wished only one with this uid or resourceVersion (or `Conflict`)."""

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """
        Ask the server itself for one object; None when it is not there.

        It has the form of `Objects.whole`: `decode_object` reads it.
        For what a store cannot know: whether an object that it lacks really does not exist.
        """

    def event(
        self,
        kind: Kind,
        key: Key,
        *,
        reason: str,
        message: str,
        warning: bool = True,
        component: str = "",
    ) -> None:
        """
        Tell users about an object by a Kubernetes Event; `component` is who says it.

        Never waits and never fails: events are correlated (IQ-122 to IQ-125) and sent in the
        background, one after the other. An object that no store of this controller holds gets
        none, because an Event names the uid.
        """
