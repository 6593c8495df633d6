"""The evaluator of objects that are only counted."""

import pytest
from plugins.resourcequota.quota_objects import Namespace, counted, nano

from kcm_host.api import Kind
from kcm_host.informer.decoder import reads_metadata_only
from kcm_host_resourcequota.evaluators.registry import (
    CountedObject,
    ObjectCountEvaluator,
    object_count_name,
)


def test_objects_are_counted_under_both_names() -> None:
    """Four kinds have an older name beside their count name (RQ-T100, RQ-200, RQ-201)."""
    space = Namespace(
        *(counted("ConfigMap", f"c{n}") for n in range(3)),
        *(counted("Secret", f"s{n}") for n in range(2)),
        counted("ReplicationController", "r"),
        *(counted("ResourceQuota", f"q{n}") for n in range(2)),
    )
    expected = {
        "configmaps": 3,
        "count/configmaps": 3,
        "secrets": 2,
        "count/secrets": 2,
        "replicationcontrollers": 1,
        "resourcequotas": 2,
        "count/resourcequotas": 2,
    }
    assert space.used(*expected) == nano(expected)


@pytest.mark.parametrize(
    ("group", "resource", "name", "alias"),
    [
        ("", "configmaps", "count/configmaps", True),
        ("", "endpoints", "count/endpoints", False),
        ("example.com", "secrets", "count/secrets.example.com", False),
    ],
)
def test_a_counter_handles_only_its_names(
    group: str, resource: str, name: str, alias: bool
) -> None:
    """Only the core group has aliases (RQ-200, RQ-201)."""
    kind = Kind(group=group, version="v1", name="X", resource=resource)
    evaluator = ObjectCountEvaluator(kind)
    assert object_count_name(kind) == name
    assert evaluator.handles(name)
    assert evaluator.handles(resource) is alias
    assert not any(map(evaluator.handles, (f"{name}x", f"{resource}.{group}", "count/", "pods")))


def test_counted_objects_are_requested_as_metadata() -> None:
    """Metadata is enough, so the host requests nothing else (RQ-204, RQ-B50)."""
    assert reads_metadata_only(CountedObject)
    assert CountedObject.__struct_fields__ == ()
