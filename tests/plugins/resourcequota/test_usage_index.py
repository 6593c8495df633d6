"""The usage index: records, totals by group, and the change of one object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api import Key, QuantityFormat
from kcm_host.api.quantity import NANO
from kcm_host_resourcequota.evaluators.base import Contribution
from kcm_host_resourcequota.scopes import ScopeAttributes
from kcm_host_resourcequota.usage_index import ContributionChange, UsageIndex

SI, BINARY = QuantityFormat.DECIMAL_SI, QuantityFormat.BINARY_SI
BEST_EFFORT = ScopeAttributes(frozenset({"BestEffort"}))
PLAIN = ScopeAttributes()


def using(
    attributes: ScopeAttributes = PLAIN, form: QuantityFormat = SI, **amounts: int
) -> Contribution:
    """Return a contribution of these nano amounts."""
    usage = tuple((name, nano, form) for name, nano in sorted(amounts.items()))
    return Contribution(usage, attributes)


def totals(
    usage_index: UsageIndex, namespace: str = "a", attributes: ScopeAttributes | None = None
) -> dict[str, int]:
    """Return the totals of the names used here, of some scope attributes or of all."""
    found = {"cpu": 0, "memory": 0}
    usage_index.add_totals(
        "pods", namespace, selects=lambda each: attributes in (None, each), into=found
    )
    return {name: nano for name, nano in found.items() if nano}


def formats(usage_index: UsageIndex) -> dict[QuantityFormat, int]:
    """Return how often each format was added to cpu."""
    return dict(usage_index.formats("pods", "a", selects=lambda _attributes: True, name="cpu"))


def test_totals_follow_creations_changes_and_deletions() -> None:
    """Old is subtracted, new is added, in the object's own namespace alone (RQ-B3 to B5)."""
    usage_index = UsageIndex()
    usage_index.apply("pods", Key("p", "a"), using(cpu=1, memory=5))
    usage_index.apply("pods", Key("q", "a"), using(cpu=2))
    usage_index.apply("pods", Key("p", "b"), using(cpu=7))
    assert totals(usage_index) == {"cpu": 3, "memory": 5}
    usage_index.apply("pods", Key("p", "a"), using(cpu=4))
    assert totals(usage_index) == {"cpu": 6}
    usage_index.apply("pods", Key("q", "a"), None)
    assert totals(usage_index) == {"cpu": 4}
    assert totals(usage_index, "b") == {"cpu": 7}


def test_repetition_changes_nothing() -> None:
    """A key that is applied or deleted twice changes nothing (RQ-B6, RQ-T133)."""
    usage_index = UsageIndex()
    key = Key("p", "a")
    assert usage_index.apply("pods", key, using(cpu=1)) == ContributionChange(None, using(cpu=1))
    assert usage_index.apply("pods", key, using(cpu=1)) is None
    assert usage_index.apply("pods", key, None) == ContributionChange(using(cpu=1), None)
    assert usage_index.apply("pods", key, None) is None
    assert totals(usage_index) == {}


def test_subtracted_is_what_was_added() -> None:
    """The present contribution of the object does not matter (RQ-B4, RQ-B24)."""
    usage_index = UsageIndex()
    key = Key("p", "a")
    usage_index.apply("pods", key, using(cpu=3))
    assert usage_index.record("pods", key) == using(cpu=3)
    usage_index.apply("pods", key, using(cpu=1))
    usage_index.apply("pods", key, None)
    assert totals(usage_index) == {}


def test_an_object_moves_between_groups() -> None:
    """Other scope attributes are another group, even with equal usage (RQ-B2, RQ-B25)."""
    usage_index = UsageIndex()
    usage_index.apply("pods", Key("p", "a"), using(cpu=1))
    change = usage_index.apply("pods", Key("p", "a"), using(BEST_EFFORT, cpu=1))
    assert totals(usage_index, attributes=PLAIN) == {}
    assert totals(usage_index, attributes=BEST_EFFORT) == {"cpu": 1}
    namespace_usage = usage_index.namespace_usage("pods", "a")
    assert namespace_usage is not None
    assert list(namespace_usage.groups) == [BEST_EFFORT]
    assert change is not None
    assert change.by_name(lambda _attributes: True) == {}
    assert change.by_name(lambda attributes: attributes == PLAIN) == {"cpu": -1}
    assert change.by_name(lambda attributes: attributes == BEST_EFFORT) == {"cpu": 1}


def test_deleted_objects_leave_nothing_behind() -> None:
    """Empty groups, namespaces and names are removed (section 20.3)."""
    usage_index = UsageIndex()
    for name in ("p", "q"):
        usage_index.apply("pods", Key(name, "a"), using(cpu=1, memory=0))
    usage_index.apply("pods", Key("p", "a"), using(cpu=1))
    namespace_usage = usage_index.namespace_usage("pods", "a")
    assert namespace_usage is not None
    assert set(namespace_usage.groups[PLAIN].totals) == {"cpu", "memory"}
    usage_index.apply("pods", Key("q", "a"), None)
    assert set(namespace_usage.groups[PLAIN].totals) == {"cpu"}
    usage_index.apply("pods", Key("p", "a"), None)
    assert usage_index.namespace_usage("pods", "a") is None
    assert usage_index.namespaces("pods") == ()


def test_formats_are_counted_without_zeros() -> None:
    """Amounts of zero have no format (RQ-B26, RQ-T144)."""
    usage_index = UsageIndex()
    for number in range(3):
        usage_index.apply("pods", Key(f"p{number}", "a"), using(form=BINARY, cpu=5))
    usage_index.apply("pods", Key("si", "a"), using(cpu=1))
    usage_index.apply("pods", Key("zero", "a"), using(cpu=0))
    assert formats(usage_index) == {BINARY: 3, SI: 1}
    for number in range(3):
        usage_index.apply("pods", Key(f"p{number}", "a"), None)
    assert formats(usage_index) == {SI: 1}


def test_records_may_change_while_their_keys_are_read() -> None:
    """Those of a namespace that has gone are left out (RQ-B40)."""
    usage_index = UsageIndex()
    for namespace in "abc":
        usage_index.apply("pods", Key("p", namespace), using(cpu=1))
    keys = usage_index.keys("pods")
    assert next(keys) == Key("p", "a")
    usage_index.apply("pods", Key("p", "b"), None)
    assert list(keys) == [Key("p", "c")]
    assert usage_index.record("pods", Key("p", "b")) is None


def test_numbers_have_no_maximum() -> None:
    """Sums are exact beyond 64 bits and down to nano units (RQ-B27, RQ-283)."""
    usage_index = UsageIndex()
    huge = 2**63 * NANO
    usage_index.apply("pods", Key("p", "a"), using(cpu=huge))
    usage_index.apply("pods", Key("q", "a"), using(cpu=1))
    assert totals(usage_index) == {"cpu": huge + 1}


def test_a_removed_resource_leaves_the_others() -> None:
    """The records of a removed evaluator are removed (D-11)."""
    usage_index = UsageIndex()
    usage_index.apply("pods", Key("p", "a"), using(cpu=1))
    usage_index.apply("services", Key("s", "a"), using(cpu=1))
    usage_index.remove_resource("services")
    assert usage_index.object_count("services") == 0
    assert list(usage_index.keys("pods")) == [Key("p", "a")]


@pytest.mark.parametrize("wrong", [using(cpu=9), None], ids=["another", "missing"])
def test_a_replaced_record_recomputes_the_totals(wrong: Contribution | None) -> None:
    """The totals are computed from the records, whatever they were before (RQ-B41)."""
    usage_index = UsageIndex()
    for name in ("p", "q"):
        usage_index.apply("pods", Key(name, "a"), using(cpu=1))
    usage_index.apply("pods", Key("p", "b"), using(cpu=7))
    namespace_usage = usage_index.namespace_usage("pods", "a")
    assert namespace_usage is not None
    usage_index.apply("pods", Key("p", "a"), None)
    if wrong is not None:
        usage_index.apply("pods", Key("p", "a"), wrong)
    usage_index.replace("pods", Key("p", "a"), using(cpu=1))
    assert namespace_usage.groups == namespace_usage.recompute()
    assert totals(usage_index) == {"cpu": 2}
    assert usage_index.object_count("pods") == len(list(usage_index.keys("pods"))) == 3


def test_replacements_may_empty_a_namespace_and_fill_it() -> None:
    """A namespace without records is removed, and comes back with the next one (RQ-B41)."""
    usage_index = UsageIndex()
    key = Key("p", "a")
    usage_index.apply("pods", Key("p", "b"), using(cpu=7))
    usage_index.replace("pods", key, using(cpu=1))
    assert (totals(usage_index), usage_index.object_count("pods")) == ({"cpu": 1}, 2)
    usage_index.replace("pods", key, None)
    assert usage_index.namespaces("pods") == ("b",)
    assert usage_index.object_count("pods") == 1
    usage_index.replace("pods", key, None)
    assert usage_index.object_count("pods") == 1


#: Some are equal and not the same object, as where a cache has evicted one.
CONTRIBUTIONS = (
    using(cpu=1),
    using(cpu=1),
    using(cpu=2, memory=5),
    using(form=BINARY, memory=7),
    using(BEST_EFFORT, cpu=0),
    using(BEST_EFFORT, cpu=3),
)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("pqrs"), st.sampled_from([*CONTRIBUTIONS, None])), st.none()
        )
    )
)
def test_totals_are_those_of_the_records_whenever_they_are_read(
    steps: list[tuple[str, Contribution | None] | None],
) -> None:
    """However many changes come between two readings, which add them up (RQ-B3, RQ-B7)."""
    usage_index = UsageIndex()
    for step in [*steps, None]:
        if step is not None:
            version, before = usage_index.version, usage_index.record("pods", Key(step[0], "a"))
            usage_index.apply("pods", Key(step[0], "a"), step[1])
            assert (usage_index.version == version) is (before == step[1])
        elif usage := usage_index.namespace_usage("pods", "a"):
            assert usage.groups == usage.recompute()
