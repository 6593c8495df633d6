"""Objects: what every one of them has, full objects, and functions that most controllers need."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec

from kcm_host.api.kinds import Kind


# `gc=False`: most objects of a cluster are instances of models, and models are trees.
class Model(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """
    A base for models: immutable, and the field `last_seen` reads the key `lastSeen`.

    Keys without a field are ignored. In the body of a write, fields with their default are left
    out. What a model does not declare costs neither memory nor wake-ups.
    """


class OwnerReference(Model, frozen=True):
    """One entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Model, frozen=True):
    """
    The metadata that most controllers read.

    A controller of many objects declares its own model with the fields that it needs: labels and
    annotations are most of the memory, and a change of any of them is a change of the object.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    #: Changes with the spec only.
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    #: Set while the object is being deleted.
    deletion_timestamp: datetime | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object; an object has one at most."""
        return next((each for each in self.owner_references if each.controller), None)


class Condition(Model, frozen=True):
    """One entry of `status.conditions`."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    #: The generation of the object that the condition is about.
    observed_generation: int = 0
    #: Since when the status is what it is.
    last_transition_time: datetime | None = None


def owner_reference(kind: Kind, owner: ObjectMeta) -> OwnerReference:
    """
    Return the reference that makes `owner` the controlling owner of an object.

    Its children are deleted with it, and not before them when it is deleted in the foreground.
    Raises `ValueError` when `owner` has no name or uid: an object that is not stored owns nothing.
    """
    if not (owner.name and owner.uid):
        raise ValueError(
            f"an owner needs a name and a uid, found {owner.name!r} and {owner.uid!r}; "
            "give the metadata of an object of the view"
        )
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.name,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:  # noqa: A002 - the word of the API
    """Return the condition of this type, None if there is none."""
    return next((each for each in conditions if each.type == type), None)


def set_condition(
    conditions: Iterable[Condition], condition: Condition, *, now: datetime | None = None
) -> tuple[Condition, ...]:
    """
    Return the conditions with this one in the place of that of its type, or at the end.

    `last_transition_time` stays as it is while the status stays the same; otherwise it is that of
    `condition`, or `now` (default: the present time, in whole seconds as the API server stores it).
    The result equals `conditions` when nothing differs, so that nothing needs to be written.
    """
    present = tuple(conditions)
    old = find_condition(present, condition.type)
    since = condition.last_transition_time
    if old is not None and old.status == condition.status:
        since = old.last_transition_time or since
    since = since or (now or datetime.now(UTC)).replace(microsecond=0)
    new = msgspec.structs.replace(condition, last_transition_time=since)
    if old is None:
        return (*present, new)
    return tuple(new if each is old else each for each in present)


T = TypeVar("T")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder(Any).decode


def raw_object(data: bytes) -> dict[str, Any]:
    """
    Return an object with its metadata decoded and every other field as `msgspec.Raw`.

    What is only passed on is sent back byte for byte: no limit of nesting applies to it, and no
    number changes its text. `managedFields` nest as deep as the object does and stay raw too.
    Raises `msgspec.MsgspecError` if `data` is no JSON object, and `RecursionError`.
    """
    full: dict[str, Any] = dict(_fields(data))
    if "metadata" in full:
        metadata = _fields(full["metadata"])
        full["metadata"] = {
            name: value if name == "managedFields" else _any(value)
            for name, value in metadata.items()
        }
    return full


def decode_object(full_object: Mapping[str, Any], model: type[T]) -> T:
    """
    Return an object of `Objects.full_object` or of a `Writer` as `model`, or as `dict` throughout.

    Raises `msgspec.ValidationError` if it does not fit.
    """
    # Through JSON once more: fields are raw texts, and what a plugin has put in their place may be
    # of any type that can be encoded.
    return msgspec.json.decode(msgspec.json.encode(full_object), type=model)
