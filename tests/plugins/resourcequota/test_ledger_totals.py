"""The ledger: records, totals by group, and what changes when an object does."""

import pytest

from kcm_host.api import Key
from kcm_host_resourcequota.evaluators.base import Contribution
from kcm_host_resourcequota.quantity import NANO, Format
from kcm_host_resourcequota.scopes import Vector
from kcm_host_resourcequota.usage_index import Difference, Ledger

SI, BINARY = Format.DECIMAL_SI, Format.BINARY_SI
BEST_EFFORT = Vector(frozenset({"BestEffort"}))
PLAIN = Vector()


def using(vector: Vector = PLAIN, form: Format = SI, **amounts: int) -> Contribution:
    """Give a contribution of these nano amounts."""
    usage = tuple((name, nano, form) for name, nano in sorted(amounts.items()))
    return Contribution(usage, vector)


def totals(ledger: Ledger, namespace: str = "a", vector: Vector | None = None) -> dict[str, int]:
    """Give the totals of the names used here, of one vector or of all."""
    found = {"cpu": 0, "memory": 0}
    ledger.add_up("pods", namespace, counts=lambda each: vector in (None, each), into=found)
    return {name: nano for name, nano in found.items() if nano}


def formats(ledger: Ledger) -> dict[Format, int]:
    """Give how often each format was added to cpu."""
    return ledger.total("pods", "a", counts=lambda _vector: True, name="cpu").formats


def test_totals_follow_what_comes_changes_and_goes() -> None:
    """Old is subtracted, new is added, in the object's own namespace alone (RQ-B3 to B5)."""
    ledger = Ledger()
    ledger.apply("pods", Key("p", "a"), using(cpu=1, memory=5))
    ledger.apply("pods", Key("q", "a"), using(cpu=2))
    ledger.apply("pods", Key("p", "b"), using(cpu=7))
    assert totals(ledger) == {"cpu": 3, "memory": 5}
    ledger.apply("pods", Key("p", "a"), using(cpu=4))
    assert totals(ledger) == {"cpu": 6}
    ledger.apply("pods", Key("q", "a"), None)
    assert totals(ledger) == {"cpu": 4}
    assert totals(ledger, "b") == {"cpu": 7}


def test_repetition_changes_nothing() -> None:
    """A key applied again, or gone twice, makes no difference (RQ-B6, RQ-T133)."""
    ledger = Ledger()
    key = Key("p", "a")
    assert ledger.apply("pods", key, using(cpu=1)) == Difference(None, using(cpu=1))
    assert ledger.apply("pods", key, using(cpu=1)) is None
    assert ledger.apply("pods", key, None) == Difference(using(cpu=1), None)
    assert ledger.apply("pods", key, None) is None
    assert totals(ledger) == {}


def test_subtracted_is_what_was_added() -> None:
    """What an object would give by now does not matter (RQ-B4, RQ-B24)."""
    ledger = Ledger()
    key = Key("p", "a")
    ledger.apply("pods", key, using(cpu=3))
    assert ledger.record("pods", key) == using(cpu=3)
    ledger.apply("pods", key, using(cpu=1))
    ledger.apply("pods", key, None)
    assert totals(ledger) == {}


def test_an_object_moves_between_groups() -> None:
    """Another vector is another group, even with the same usage (RQ-B2, RQ-B25)."""
    ledger = Ledger()
    ledger.apply("pods", Key("p", "a"), using(cpu=1))
    difference = ledger.apply("pods", Key("p", "a"), using(BEST_EFFORT, cpu=1))
    assert totals(ledger, vector=PLAIN) == {}
    assert totals(ledger, vector=BEST_EFFORT) == {"cpu": 1}
    assert difference is not None
    assert difference.seen(lambda _vector: True) == {}
    assert difference.seen(lambda vector: vector == PLAIN) == {"cpu": -1}
    assert difference.seen(lambda vector: vector == BEST_EFFORT) == {"cpu": 1}


def test_a_difference_names_what_changed() -> None:
    """Names whose amount is the same are left out (RQ-B10)."""
    difference = Difference(using(cpu=3, memory=1), using(cpu=1, memory=1))
    assert difference.seen(lambda _vector: True) == {"cpu": -2}


def test_nothing_is_left_of_what_has_gone() -> None:
    """Empty groups and accounts vanish, and so do names that nobody uses (section 20.3)."""
    ledger = Ledger()
    for name in ("p", "q"):
        ledger.apply("pods", Key(name, "a"), using(cpu=1, memory=0))
    ledger.apply("pods", Key("p", "a"), using(cpu=1))
    account = ledger.account("pods", "a")
    assert account is not None
    assert set(account.groups[PLAIN].totals) == {"cpu", "memory"}
    ledger.apply("pods", Key("q", "a"), None)
    assert set(account.groups[PLAIN].totals) == {"cpu"}
    ledger.apply("pods", Key("p", "a"), None)
    assert ledger.account("pods", "a") is None
    assert ledger.namespaces("pods") == ()


def test_formats_are_counted_without_zeros() -> None:
    """Only contributors that are not zero count, and none remains in the end (RQ-B26, RQ-T144)."""
    ledger = Ledger()
    for number in range(3):
        ledger.apply("pods", Key(f"p{number}", "a"), using(form=BINARY, cpu=5))
    ledger.apply("pods", Key("si", "a"), using(cpu=1))
    ledger.apply("pods", Key("zero", "a"), using(cpu=0))
    assert formats(ledger) == {BINARY: 3, SI: 1}
    for number in range(3):
        ledger.apply("pods", Key(f"p{number}", "a"), None)
    assert formats(ledger) == {SI: 1}


def test_numbers_have_no_size() -> None:
    """Sums are exact beyond 64 bits and down to nano units (RQ-B27, RQ-283)."""
    ledger = Ledger()
    huge = 2**63 * NANO
    ledger.apply("pods", Key("p", "a"), using(cpu=huge))
    ledger.apply("pods", Key("q", "a"), using(cpu=1))
    assert totals(ledger) == {"cpu": huge + 1}


def test_a_forgotten_resource_leaves_the_others() -> None:
    """An evaluator that is removed takes its records along (D-11)."""
    ledger = Ledger()
    ledger.apply("pods", Key("p", "a"), using(cpu=1))
    ledger.apply("services", Key("s", "a"), using(cpu=1))
    ledger.forget("services")
    assert ledger.objects("services") == 0
    assert list(ledger.keys("pods")) == [Key("p", "a")]


@pytest.mark.parametrize("wrong", [using(cpu=9), None], ids=["another", "missing"])
def test_a_corrected_record_has_the_totals_added_up(wrong: Contribution | None) -> None:
    """Totals come from the records then, whatever they said before (RQ-B41)."""
    ledger = Ledger()
    for name in ("p", "q"):
        ledger.apply("pods", Key(name, "a"), using(cpu=1))
    account = ledger.account("pods", "a")
    assert account is not None
    account.records.pop("p")
    if wrong is not None:
        account.records["p"] = wrong
    account.correct("p", using(cpu=1))
    assert account.groups == account.recounted()
    assert totals(ledger) == {"cpu": 2}
