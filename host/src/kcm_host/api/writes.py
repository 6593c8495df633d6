"""What a controller may write, and the one way to do it."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from kcm_host.api.kinds import Key, Kind


class Permission(msgspec.Struct, frozen=True):
    """
    One thing a controller writes, in the words of RBAC.

    `verb` is the RBAC verb the server checks: `patch` for patches and applies alike. Verbs that
    only widen what a write may contain (`escalate`) are declared too: the permissions shown to
    the operator are derived from this list.
    """

    kind: Kind
    verb: str
    subresource: str = ""


class Write(msgspec.Struct, frozen=True):
    """One intended write, as handed to the sender."""

    kind: Kind
    key: Key
    verb: str
    body: bytes
    content_type: str
    subresource: str = ""
    #: Query parameters, in the order they are sent.
    query: tuple[tuple[str, str], ...] = ()


class Receipt(msgspec.Struct, frozen=True):
    """What the server answered to a write: the version the object has now."""

    version: str = ""
    uid: str = ""
    #: How often it was sent: more than once when the server asked for patience.
    attempts: int = 1


class Writer(Protocol):
    """
    The only way from a sync to a request.

    Every method sends one request and returns when the server has answered. A write that
    `kcm_writes` does not declare raises `UndeclaredWrite` and sends nothing. An error answer
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
    ) -> Receipt:
        """
        Send a server-side apply; apiVersion, kind and name are added to `body` here.

        `field_manager` becomes the owner of every field in `body`; `force` takes fields from
        their present owners. Applying to a name that does not exist creates it, so the server
        asks for the `create` permission then (CRA-57).
        """
