"""The calculator: evaluators of names, scopes, failures and formats."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest
from plugins.tables import row

from kcm_host.api import Key, Kind, Quantity, QuantityFormat, View
from kcm_host.api.quantity import NANO
from kcm_host_resourcequota.calculator import calculate, format_of, plan_evaluation
from kcm_host_resourcequota.evaluators.base import Contribution, Evaluator
from kcm_host_resourcequota.models import ParsedSpec, ScopeSelector, Spec
from kcm_host_resourcequota.scopes import NO_SCOPES, Requirement, ScopeAttributes
from kcm_host_resourcequota.usage_index import UsageIndex

SI, BINARY, EXPONENT = (
    QuantityFormat.DECIMAL_SI,
    QuantityFormat.BINARY_SI,
    QuantityFormat.DECIMAL_EXPONENT,
)
IN_SCOPE = ScopeAttributes(frozenset({"Terminating"}))


class Thing(msgspec.Struct, frozen=True):
    """The objects of the toy evaluators."""


class Toy(Evaluator):
    """An evaluator for given names; its contributions are recorded by the test."""

    kind = Kind(group="", version="v1", name="Thing", resource="things")
    model = Thing

    def __init__(self, resource: str, *names: str) -> None:
        self._resource = resource
        self._names = names

    @property
    def resource(self) -> str:
        return self._resource

    def handles(self, name: str) -> bool:
        return name in self._names

    def contribution(self, key: Key, obj: Any, view: View, now: float) -> Contribution:
        raise AssertionError("a calculation evaluates no object (RQ-B7)")


class Case:
    """Some evaluators and their usage index."""

    def __init__(self, *evaluators: Toy) -> None:
        self.evaluators = evaluators
        self.usage_index = UsageIndex()
        self.problems: dict[str, str] = {}

    def put(self, evaluator: Toy, attributes: ScopeAttributes = NO_SCOPES, **amounts: int) -> None:
        usage = tuple((name, amount, SI) for name, amount in sorted(amounts.items()))
        key = Key(f"o{self.usage_index.object_count(evaluator.resource)}", "a")
        self.usage_index.apply(evaluator.resource, key, Contribution(usage, attributes))

    def serving(self, name: str) -> Collection[Evaluator]:
        return [each for each in self.evaluators if each.handles(name)]

    def usage(self, *names: str, **spec: Any) -> tuple[dict[str, int], dict[str, str]]:
        """Return the totals of a quota with these names and scopes, and the failed evaluators."""
        parsed = ParsedSpec(Spec(hard=dict.fromkeys(names, "10"), **spec))
        found = calculate(
            plan_evaluation(parsed.hard, self.serving),
            parsed,
            namespace="a",
            usage_index=self.usage_index,
            problem=lambda evaluator, _namespace: self.problems.get(evaluator.resource, ""),
        )
        return dict(found.used_nano), dict(found.failed)


def test_only_handled_names_have_an_entry() -> None:
    """A name without an evaluator is ignored; the others have one, 0 at least (RQ-61, RQ-77)."""
    pods = Toy("pods", "cpu", "memory")
    case = Case(pods)
    case.put(pods, cpu=3)
    assert case.usage("cpu", "memory", "else") == ({"cpu": 3, "memory": 0}, {})
    assert plan_evaluation(["else", "cpu"], case.serving).unhandled == ("else",)


def test_an_evaluator_without_names_is_not_planned() -> None:
    """Neither its usage nor its problem is in the result (RQ-62)."""
    pods, services = Toy("pods", "cpu"), Toy("services", "services")
    case = Case(pods, services)
    case.problems["services"] = "not yet synced"
    assert case.usage("cpu") == ({"cpu": 0}, {})


def test_shared_names_are_summed() -> None:
    """Each evaluator adds its own part (RQ-64, RQ-66)."""
    pods, claims = Toy("pods", "gpu", "cpu"), Toy("claims", "gpu")
    case = Case(pods, claims)
    case.put(pods, gpu=1, cpu=1)
    case.put(claims, gpu=2)
    assert case.usage("gpu", "cpu") == ({"gpu": 3, "cpu": 1}, {})


def test_a_planned_evaluator_adds_to_names_it_does_not_handle() -> None:
    """Its whole usage counts, for limited names with an evaluator (RQ-64, RQ-65, RQ-173)."""
    pods, claims = Toy("pods", "gpu"), Toy("claims", "count")
    case = Case(pods, claims)
    case.put(claims, gpu=2, count=1, more=5)
    assert case.usage("gpu") == ({"gpu": 0}, {}), "claims are not planned"
    assert case.usage("gpu", "count") == ({"gpu": 2, "count": 1}, {})


@pytest.mark.parametrize("failing", ["pods", "claims"])
def test_a_failure_leaves_out_all_its_names(failing: str) -> None:
    """A shared name is missing if one of its evaluators fails (RQ-63, RQ-66, RQ-67)."""
    pods, claims = Toy("pods", "gpu", "cpu"), Toy("claims", "gpu", "count")
    case = Case(pods, claims)
    case.put(pods, gpu=1, cpu=1, count=5 if failing == "pods" else 0)
    case.put(claims, gpu=2, count=1, cpu=5 if failing == "claims" else 0)
    case.problems[failing] = "not yet synced"
    left = {"pods": {"count": 1}, "claims": {"cpu": 1}}[failing]
    assert case.usage("gpu", "cpu", "count") == (left, {failing: "not yet synced"})


def test_scopes_are_one_conjunction() -> None:
    """Every scope and every expression has to match (RQ-72)."""
    pods = Toy("pods", "cpu")
    case = Case(pods)
    case.put(pods, IN_SCOPE, cpu=1)
    case.put(pods, ScopeAttributes(frozenset({"Terminating", "BestEffort"})), cpu=2)
    case.put(pods, cpu=4)
    both = ScopeSelector((Requirement("BestEffort", "Exists"),))
    assert case.usage("cpu")[0] == {"cpu": 7}
    assert case.usage("cpu", scopes=("Terminating",))[0] == {"cpu": 3}
    assert case.usage("cpu", scopes=("Terminating",), scope_selector=both)[0] == {"cpu": 2}


def test_a_malformed_selector_makes_everything_zero() -> None:
    """Without an error, also where nothing matched anyway (RQ-73, RQ-92, RQ-B29, RQ-T61)."""
    pods = Toy("pods", "cpu", "pods")
    case = Case(pods)
    case.put(
        pods, ScopeAttributes(named_scope="PriorityClass", names=frozenset({"high"})), cpu=1, pods=1
    )
    selector = ScopeSelector((Requirement("PriorityClass", "In", ()),))
    assert case.usage("cpu", "pods", scope_selector=selector) == ({"cpu": 0, "pods": 0}, {})


@pytest.mark.parametrize(
    ("formats", "present", "expected"),
    [
        row("nothing-added", {}, BINARY, SI),
        row("the-present-one", {BINARY: 1, SI: 9}, BINARY, BINARY),
        row("the-most-frequent", {SI: 1, BINARY: 2}, EXPONENT, BINARY),
        row("binary-before-exponent", {EXPONENT: 2, BINARY: 2}, None, BINARY),
        row("decimal-first", {EXPONENT: 2, BINARY: 2, SI: 2}, None, SI),
    ],
)
def test_the_format_is_one_that_was_added(
    formats: dict[QuantityFormat, int], present: QuantityFormat | None, expected: QuantityFormat
) -> None:
    """The present format if a part has it, else the most frequent, in order (RQ-B26, RQ-304)."""
    known = Quantity(NANO, present) if present else None
    assert format_of(formats, known) is expected
