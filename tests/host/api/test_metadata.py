"""Models and helpers that authors of controllers write again and again."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api import (
    Condition,
    Kind,
    Model,
    ObjectMeta,
    OwnerReference,
    find_condition,
    owner_reference,
    set_condition,
)

SITE = Kind(group="example.org", version="v1", name="Website", resource="websites")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
types = st.sampled_from(["Ready", "Synced", "Stalled"])
conditions = st.builds(
    Condition,
    type=types,
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["", "A", "B"]),
    message=st.sampled_from(["", "a"]),
    observed_generation=st.integers(0, 3),
)


class Spec(Model, frozen=True):
    """A spec with the conventions of the base."""

    max_size: int = 3
    names: tuple[str, ...] = ()


class Site(Model, frozen=True):
    """An object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


def test_a_model_reads_camel_case_and_ignores_the_rest() -> None:
    """The fields of Kubernetes are found under their names of Python."""
    text = b"""{"kind": "Website", "spec": {"maxSize": 5, "other": [1]}, "metadata": {
      "name": "a", "uid": "u", "generation": 2, "resourceVersion": "7", "labels": {"x": "y"},
      "deletionTimestamp": "2026-01-02T03:04:05Z", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
        {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "2", "controller": true}]}}"""
    site = msgspec.json.decode(text, type=Site)
    assert (site.spec.max_size, site.metadata.generation, site.metadata.labels) == (
        5,
        2,
        {"x": "y"},
    )
    assert site.metadata.deletion_timestamp == NOW
    assert site.metadata.controller is not None
    assert site.metadata.controller.name == "j"
    assert Site().metadata.controller is None


def test_a_model_in_a_body_leaves_defaults_out() -> None:
    """An apply owns what it says, so a default must not be said."""
    assert msgspec.json.encode(Spec(names=("a",))) == b'{"names":["a"]}'


def test_a_model_is_immutable() -> None:
    """Objects of a view are shared."""
    with pytest.raises(AttributeError):
        Spec().max_size = 4  # type: ignore[misc]


def test_an_owner_reference_makes_the_owner_control() -> None:
    """It has the form that the garbage collector reads."""
    made = owner_reference(SITE, ObjectMeta(name="a", uid="u"))
    assert msgspec.to_builtins(made) == {
        "apiVersion": "example.org/v1",
        "kind": "Website",
        "name": "a",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert isinstance(made, OwnerReference)


@pytest.mark.parametrize("owner", [ObjectMeta(name="a"), ObjectMeta(uid="u")])
def test_an_owner_that_is_not_stored_is_refused(owner: ObjectMeta) -> None:
    """The API server would refuse the child with less to say."""
    with pytest.raises(ValueError, match="an owner needs a name and a uid"):
        owner_reference(SITE, owner)


@given(st.lists(conditions, unique_by=lambda each: each.type), conditions)
def test_a_set_condition_is_there_once(present: list[Condition], new: Condition) -> None:
    """The others keep place and content; the same again changes nothing."""
    result = set_condition(present, new, now=NOW)
    assert [each.type for each in result if each.type != new.type] == [
        each.type for each in present if each.type != new.type
    ]
    assert [each for each in result if each.type != new.type] == [
        each for each in present if each.type != new.type
    ]
    found = find_condition(result, new.type)
    assert found is not None
    assert (found.status, found.reason, found.message) == (new.status, new.reason, new.message)
    assert set_condition(result, new, now=NOW + timedelta(days=1)) == result


@given(conditions, conditions)
def test_the_time_is_that_of_the_last_change_of_status(old: Condition, new: Condition) -> None:
    """A new reason or message alone is no transition."""
    new = msgspec.structs.replace(new, type=old.type)
    first = set_condition((), old, now=NOW)
    (found,) = set_condition(first, new, now=NOW + timedelta(hours=1))
    is_transition = old.status != new.status
    assert found.last_transition_time == NOW + timedelta(hours=is_transition)


def test_the_present_time_has_whole_seconds() -> None:
    """The API server stores no more: a fraction would be a difference for ever."""
    (found,) = set_condition((), Condition(type="Ready", status="True"))
    assert found.last_transition_time is not None
    assert found.last_transition_time.microsecond == 0
    assert abs(datetime.now(UTC) - found.last_transition_time) < timedelta(minutes=1)
