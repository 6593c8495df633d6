"""Writes: what a controller may write, and the writer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from kcm_host.api.kinds import Key, Kind

#: The verbs of RBAC that a write may need.
Verb = Literal[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "approve",
    "attest",
    "bind",
    "escalate",
    "impersonate",
    "sign",
    "use",
]


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """
    One kind of write, in the terms of RBAC.

    `verb` is the RBAC verb that the API server checks: `patch` for patches and for applies, `get`
    for `Writer.read`. A controller that uses `Writer.event` declares `EVENTS`. Verbs that only
    extend what a write may contain (`escalate`) are declared too: the permissions that operators
    are shown are derived from this list.
    """

    kind: Kind
    verb: Verb
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.kind}{f'/{self.subresource}' if self.subresource else ''}"


#: What `Writer.event` writes.
EVENT = Kind(group="", version="v1", name="Event", resource="events")
#: The permissions that `Writer.event` needs: `return [..., *EVENTS]` in `kcm_writes`.
EVENTS = (Permission(kind=EVENT, verb="create"), Permission(kind=EVENT, verb="patch"))


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """One intended request, before it is sent."""

    kind: Kind
    #: For a creation with a generated name: the part of the name that is known.
    key: Key
    #: The RBAC verb: create, update, patch, delete, or get for a single read.
    verb: Verb
    body: bytes = b""
    content_type: str = ""
    subresource: str = ""
    #: Query parameters, in the order they are sent.
    query: tuple[tuple[str, str], ...] = ()
    #: Whether the response has to hold the full object, not only its metadata.
    full_object: bool = False


#: How a patch is merged into the object: RFC 7386, as Kubernetes does for its own kinds, RFC 6902.
PatchType = Literal["merge", "strategic", "json"]
#: The HTTP status of a response to the creation of an object.
CREATED = 201


class WriteResponse(msgspec.Struct, frozen=True, kw_only=True):
    """
    The API server's response to a write: the object's new version, and the object if requested.

    `status` is the HTTP status, `name` the name of the object, also if it was generated.
    """

    resource_version: str = ""
    uid: str = ""
    #: How often it was sent: more than once after responses with `Retry-After`.
    attempts: int = 1
    body: bytes = b""
    status: int = 200
    name: str = ""
    #: Whether this write has removed the object: a deletion, or the removal of its last finalizer.
    #: Then `resource_version` is older than that.
    deleted: bool = False

    @property
    def created(self) -> bool:
        """Return whether this write has created the object."""
        return self.status == CREATED


class FinalizerMetadata(Protocol):
    """The fields of an object's metadata that changes of its finalizers need."""

    @property
    def name(self) -> str:
        """Return the name."""

    @property
    def namespace(self) -> str:
        """Return the namespace, empty for a cluster-scoped object."""

    @property
    def uid(self) -> str:
        """Return the uid."""

    @property
    def finalizers(self) -> Sequence[str] | None:
        """Return the finalizers; None and empty are the same."""


class Writer(Protocol):
    """
    The only way for a sync to send a request.

    Every method sends one request and returns when the API server has responded. A write that
    `kcm_writes` does not declare raises `UndeclaredWrite`, and one that names no single object (an
    empty name, a missing namespace) raises `InvalidKey`; neither sends anything. An error response
    raises `ApiError`, a lost connection `Unreachable`; do not catch them, and the key is retried.
    After a 429, or a 5xx with `Retry-After`, the request is repeated at that time, up to ten times;
    until then this controller sends no other write.
    """

    async def patch(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        type: PatchType = "merge",  # noqa: A002 - the word of the Kubernetes API
        subresource: str = "",
    ) -> WriteResponse:
        """
        Send a patch; `body` holds only the changed fields.

        A `merge` patch replaces a list as a whole, and removes a field whose value is None. A
        `strategic` patch merges some lists item by item; custom resources do not support it. For
        `json`, `body` is a sequence of operations (RFC 6902). Raises `ValueError` for another type
        and `TypeError` for a body of the wrong form; nothing is sent.
        """

    async def apply(
        self,
        kind: Kind,
        key: Key,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
    ) -> WriteResponse:
        """
        Send a server-side apply; apiVersion, kind and name are added to `body`.

        `field_manager` becomes the owner of every field in `body`; with `force` also of fields
        that have another owner now. An apply to a name that does not exist creates the object,
        for which the API server checks the permission `create`; with a subresource it is an error.
        If the sync has read the object, its uid is added: when it was deleted since, the result is
        a `Conflict`, and nothing is created.
        """

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        """
        Create an object, and return it as the API server has stored it.

        The result has the form of `Objects.full_object`. apiVersion and kind are added to `body`;
        its metadata holds `name` or `generateName`.
        """

    async def update(
        self, kind: Kind, full_object: Mapping[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        """
        Replace an object by `full_object`, and return it as the API server has stored it.

        `full_object` is a changed result of `Objects.full_object`. Its resourceVersion is sent:
        raises `Conflict` if the object has changed since. After a conflict the key is not synced
        again until the store shows another version, or a second has passed.
        """

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", resource_version: str = ""
    ) -> None:
        """
        Delete an object.

        With `uid` or `resource_version`, raise `Conflict` if the object has another one.
        """

    async def ensure_finalizer(
        self, kind: Kind, metadata: FinalizerMetadata, finalizer: str
    ) -> bool:
        """
        Add a finalizer if the object does not have it; return whether a write was sent.

        `metadata` is that of an object of the view. Other finalizers stay, and no other object of
        the same name is changed: raises `Conflict`, so that the key is retried, if the finalizers
        have changed since, or the object was deleted and created again. An object that is being
        deleted gets no finalizer: the API server refuses that with an `ApiError` (422), so look at
        its `deletionTimestamp` first. Needs the permission `patch`; works for custom resources.
        """

    async def release_finalizer(
        self, kind: Kind, metadata: FinalizerMetadata, finalizer: str
    ) -> bool:
        """
        Remove a finalizer if the object has it; return whether a write was sent.

        As `ensure_finalizer`. An object that does not exist any more needs no release: that is no
        error.
        """

    async def read(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """
        Return one object from the API server, None if it does not exist.

        It has the form of `Objects.full_object`: `decode_object` decodes it. A store that does not
        have an object may only be behind; this method shows whether the object exists.
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
        Record a Kubernetes Event about an object; `component` is its source.

        It returns at once and never fails: Events are correlated as client-go does and sent in
        the background, one after the other. An object that is in no store of this controller gets
        no Event, because an Event needs the uid.
        """
