"""`owner_keys`: the owner that controls an object is synced when the object changes."""

from typing import Any

import msgspec
import pytest

from kcm_host.api import Change, Key, Kind, owner_keys

WEBSITE = Kind(group="acme.example", version="v2", name="Website", resource="websites")
ZONE = Kind(group="acme.example", version="v1", name="Zone", resource="zones", namespaced=False)
POD = Kind(group="", version="v1", name="Pod", resource="pods")
VIEW: Any = None


class Reference(msgspec.Struct):
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    controller: bool | None = None


class Meta(msgspec.Struct):
    """The owner references of an object."""

    owner_references: tuple[Reference, ...] | None = None


class Owned(msgspec.Struct):
    """An object that may have owners."""

    metadata: Meta | None = None


def owned(*references: Reference) -> Owned:
    """Return an object with these owners."""
    return Owned(Meta(references))


def keys_of(kind: Kind, *, old: Owned | None = None, new: Owned | None = None) -> list[Key]:
    """Return the keys that a change of an object in a namespace gives."""
    return owner_keys(kind)(Change(kind=POD, key=Key("p", "ns"), old=old, new=new), VIEW)


CONTROLLING = Reference("acme.example/v1", "Website", "w", controller=True)


@pytest.mark.parametrize(
    ("kind", "reference", "expected"),
    [
        (WEBSITE, CONTROLLING, [Key("w", "ns")]),
        (ZONE, Reference("acme.example/v1", "Zone", "z", controller=True), [Key("z")]),
        (POD, Reference("v1", "Pod", "p", controller=True), [Key("p", "ns")]),
        (WEBSITE, Reference("acme.example/v1", "Website", "w"), []),
        (WEBSITE, Reference("acme.example/v1", "Website", "w", controller=False), []),
        (WEBSITE, Reference("other.example/v2", "Website", "w", controller=True), []),
        (WEBSITE, Reference("v2", "Website", "w", controller=True), []),
        (WEBSITE, Reference("acme.example/v2", "Site", "w", controller=True), []),
    ],
    ids=[
        "another version",
        "no namespace",
        "the core group",
        "not said to control",
        "not controlling",
        "another group",
        "no group",
        "another kind",
    ],
)
def test_the_controlling_owner_of_the_kind_is_the_key(
    kind: Kind, reference: Reference, expected: list[Key]
) -> None:
    """Group and kind are compared, the version is not."""
    assert keys_of(kind, new=owned(reference)) == expected


def test_the_owner_is_found_among_others() -> None:
    """At most one owner controls an object."""
    other = Reference("acme.example/v1", "Website", "x")
    assert keys_of(WEBSITE, new=owned(other, CONTROLLING)) == [Key("w", "ns")]


def test_an_owner_that_has_lost_the_object_is_synced_too() -> None:
    """The owners of the old and of the new object are keys, equal ones once."""
    new = owned(Reference("acme.example/v1", "Website", "new", controller=True))
    old = owned(CONTROLLING)
    assert keys_of(WEBSITE, old=old, new=new) == [Key("w", "ns"), Key("new", "ns")]
    assert keys_of(WEBSITE, old=old, new=old) == [Key("w", "ns")]
    assert keys_of(WEBSITE, old=old) == [Key("w", "ns")]


@pytest.mark.parametrize("model", [Owned(), Owned(Meta()), owned()], ids=str)
def test_an_object_without_owners_has_no_key(model: Owned) -> None:
    """Metadata and references may be missing."""
    assert keys_of(WEBSITE, new=model) == []


def test_functions_for_one_kind_are_equal() -> None:
    """So that a dynamic watch that is declared anew is the same watch."""
    assert owner_keys(WEBSITE) == owner_keys(WEBSITE)
    assert owner_keys(WEBSITE) != owner_keys(POD)
