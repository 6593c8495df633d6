"""The objects that a quota with scopes counts."""

from collections.abc import Sequence
from typing import Any

import pytest
from plugins.resourcequota.quota_objects import (
    Manifest,
    Namespace,
    container,
    counted,
    nano,
    pod,
    requirement,
)
from plugins.tables import row

from kcm_host_resourcequota.scopes import Requirement

CLASSES = ("high", "low", "")
OWN_KINDS_ONLY = ("VolumeAttributesClass", "Foo", "")


def of_class(name: str, **spec: Any) -> Manifest:
    """Return a pod of a priority class, none if empty."""
    named = {"priorityClassName": name} if name else {}
    return pod(name=f"p-{name}", spec={**named, **spec})


def test_pods_with_an_active_deadline_are_terminating() -> None:
    """Also one of 0; deletion does not matter (RQ-T55, RQ-80, RQ-81)."""
    leaving = {"deletionTimestamp": "2027-01-15T09:00:00Z", "deletionGracePeriodSeconds": 30}
    space = Namespace(
        pod(name="a", spec={"activeDeadlineSeconds": 0}),
        pod(name="b", spec={"activeDeadlineSeconds": 60}),
        pod(name="c"),
        pod(name="d", metadata=leaving),
        pod(name="e", spec={"activeDeadlineSeconds": -1}),
    )
    assert space.used("pods", scopes=["Terminating"]) == nano({"pods": 2})
    assert space.used("pods", scopes=["NotTerminating"]) == nano({"pods": 3})


@pytest.mark.parametrize(
    ("obj", "best_effort"),
    [
        row("RQ-T56 A: nothing", pod(), True),
        row("RQ-T56 B: cpu", pod(container({"cpu": "1n"})), False),
        row("RQ-T56 C: gpu", pod(container({"example.com/gpu": 1})), True),
        row("RQ-T56 D: zeros", pod(container({"memory": 0}, {"memory": 0})), True),
        row("a limit alone", pod(container(limits={"memory": 1})), False),
        row("huge pages", pod(container({"hugepages-2Mi": "2Mi"})), True),
        row("an init container", pod(init=[container({"cpu": 1})]), False),
        row("cpu guaranteed", pod(container({"cpu": 1}, {"cpu": 1})), False),
        row("RQ-96: pod level, empty", pod(container({"cpu": 1}), spec={"resources": {}}), True),
        row("RQ-96: pod level", pod(spec={"resources": {"requests": {"cpu": 1}}}), False),
        row(
            "RQ-97: pod level, neither cpu nor memory",
            pod(spec={"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}),
            True,
        ),
        row("RQ-95: said", pod(container({"cpu": 1}), qosClass="BestEffort"), True),
        row("RQ-95: said otherwise", pod(qosClass="Burstable"), False),
        row("RQ-95: said guaranteed", pod(qosClass="Guaranteed"), False),
        row("an ended pod keeps its class", pod(container({"cpu": 1}), phase="Failed"), False),
    ],
)
def test_best_effort_is_the_status_field_or_computed(obj: Manifest, best_effort: bool) -> None:
    """Without requests and limits of cpu and memory (RQ-82, RQ-83, RQ-95 to RQ-97)."""
    space = Namespace(obj)
    counts = [
        space.used("count/pods", scopes=[each])["count/pods"]
        for each in ("BestEffort", "NotBestEffort")
    ]
    assert counts == ([10**9, 0] if best_effort else [0, 10**9])


@pytest.mark.parametrize(
    ("selector", "pods"),
    [
        row("RQ-T57: In", [requirement("PriorityClass", "In", "high")], 1),
        row("RQ-T57: NotIn", [requirement("PriorityClass", "NotIn", "high")], 2),
        row("RQ-T57: Exists", [requirement("PriorityClass", "Exists")], 2),
        row("RQ-T57: DoesNotExist", [requirement("PriorityClass", "DoesNotExist")], 1),
        row("RQ-84: values ignored", [requirement("PriorityClass", "Exists", "x")], 2),
        row("RQ-T61: In nothing", [requirement("PriorityClass", "In")], 0),
        row("RQ-92: no label value", [requirement("PriorityClass", "In", "a b")], 0),
        row("RQ-92: too long", [requirement("PriorityClass", "NotIn", "x" * 64)], 0),
        row("RQ-87: no operator", [requirement("Terminating", "DoesNotExist")], 0),
        row("RQ-87: any operator", [requirement("NotTerminating", "Foo")], 3),
    ],
)
def test_priority_classes_are_selected(selector: Sequence[Requirement], pods: int) -> None:
    """Pods of classes high and low and of none; a malformed selector counts none (RQ-84, RQ-90)."""
    space = Namespace(*map(of_class, CLASSES))
    assert space.used("pods", "count/pods", selector=selector) == nano(
        {"pods": pods, "count/pods": pods}
    )


def test_scopes_and_selector_must_both_be_met() -> None:
    """A plain scope, and one expression (RQ-T58, RQ-72)."""
    space = Namespace(*map(of_class, CLASSES))
    assert space.used("pods", scopes=["PriorityClass"]) == nano({"pods": 2})
    high = [requirement("PriorityClass", "In", "high")]
    assert space.used("pods", scopes=["PriorityClass"], selector=high) == nano({"pods": 1})


def affine(name: str, kind: str, term: Manifest, *, required: bool) -> Manifest:
    """Return a pod with one term of affinity."""
    rule = "DuringSchedulingIgnoredDuringExecution"
    terms = [term] if required else [{"weight": 1, "podAffinityTerm": term}]
    which = ("required" if required else "preferred") + rule
    return pod(name=name, spec={"affinity": {kind: {which: terms}}})


@pytest.mark.parametrize(
    ("term", "crossing"),
    [
        ({"namespaces": ["other"]}, 1),
        ({"namespaces": ["ns"]}, 1),
        ({"namespaceSelector": {}}, 1),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, 1),
        ({"namespaceSelector": None, "namespaces": []}, 0),
        ({"topologyKey": "zone", "labelSelector": {}}, 0),
    ],
)
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("required", [True, False], ids=["required", "preferred"])
def test_affinity_to_other_namespaces_is_a_scope(
    term: Manifest, crossing: int, kind: str, required: bool
) -> None:
    """Any term with namespaces, also the pod's own (RQ-T59, RQ-85)."""
    space = Namespace(affine("p", kind, term, required=required))
    assert space.used("pods", scopes=["CrossNamespacePodAffinity"]) == nano({"pods": crossing})


def test_objects_without_scopes_meet_none() -> None:
    """Services and counted objects are 0 under any scope, `DoesNotExist` too (RQ-T62, RQ-76)."""
    space = Namespace(
        pod(name="a", spec={"activeDeadlineSeconds": 1}),
        pod(name="b"),
        *({"kind": "Service", "metadata": {"name": f"s{n}"}} for n in range(2)),
        *(counted("ConfigMap", f"c{n}") for n in range(3)),
    )
    assert space.used("services", "count/configmaps", "count/pods", scopes=["Terminating"]) == nano(
        {"services": 0, "count/configmaps": 0, "count/pods": 1}
    )
    for scope in ("PriorityClass", "VolumeAttributesClass", "NotTerminating", ""):
        absent = [requirement(scope, "DoesNotExist")]
        assert space.used("services", selector=absent) == {"services": 0}


@pytest.mark.parametrize("scope", OWN_KINDS_ONLY)
@pytest.mark.parametrize("operator", ["Exists", "DoesNotExist", "NotIn"])
def test_pods_are_in_no_other_scope(scope: str, operator: str) -> None:
    """Pods never meet a scope of another kind, whatever its operator (RQ-T63, RQ-86)."""
    space = Namespace(pod(name="a"), of_class("high"))
    values = ("x",) if operator == "NotIn" else ()
    selector = [requirement(scope, operator, *values)]
    assert space.used("pods", selector=selector) == nano({"pods": 0})
