"""The extended resources that device classes declare, after every change."""

import msgspec
import pytest
from plugins.resourcequota.quota_objects import IMPLICIT_GPU, REQUESTS_GPU, Namespace

from kcm_host_resourcequota.evaluators.extended_resources import DeviceClass, DeviceClasses

GPU = "example.com/gpu"


def declaring(explicit: str | None) -> DeviceClass:
    """Return a device class with this extended resource name."""
    return msgspec.convert({"spec": {"extendedResourceName": explicit}}, DeviceClass)


def test_a_class_declares_names_while_it_exists() -> None:
    """Its own name always, an explicit one while it has it; changes are returned (RQ-186, D-9)."""
    classes = DeviceClasses()
    assert classes.put("gpu", declaring(None)) == {IMPLICIT_GPU}
    assert classes.put("gpu", declaring(GPU)) == {REQUESTS_GPU}
    assert classes.explicit_name("gpu") == GPU
    assert classes.put("gpu", declaring(GPU)) == set()
    assert classes.put("gpu", declaring("example.com/b")) == {
        REQUESTS_GPU,
        "requests.example.com/b",
    }
    assert classes.put("gpu", None) == {"requests.example.com/b", IMPLICIT_GPU}
    assert classes.put("gpu", None) == set()
    assert classes.explicit_name("gpu") == ""
    assert not any(map(classes.declares, (GPU, "example.com/b", IMPLICIT_GPU[9:])))


@pytest.mark.parametrize("change", [None, DeviceClass(), "example.com/other"])
def test_a_name_of_two_classes_outlives_one_of_them(change: DeviceClass | str | None) -> None:
    """Deleting, clearing or renaming one leaves it declared by the other (D-17, RQ-186)."""
    classes = DeviceClasses()
    classes.put("a", declaring(GPU))
    classes.put("b", declaring(GPU))
    after = declaring(change) if isinstance(change, str) else change
    assert REQUESTS_GPU not in classes.put("b", after)
    assert classes.declares(GPU)
    assert classes.explicit_name("a") == GPU
    assert REQUESTS_GPU in classes.put("a", None)
    assert not classes.declares(GPU)


@pytest.mark.parametrize(
    "manifest", [{}, {"spec": None}, {"spec": {}}, {"spec": {"extendedResourceName": ""}}]
)
def test_a_class_without_a_name_is_empty(manifest: dict[str, object]) -> None:
    """Missing, null and empty have one meaning."""
    assert msgspec.convert(manifest, DeviceClass) == DeviceClass()


def test_claims_handle_what_classes_declare() -> None:
    """The handled names depend on the device classes (RQ-172, RQ-173, RQ-174)."""
    space = Namespace()
    evaluator = next(e for e in space.evaluators if e.resource.startswith("resourceclaims"))
    assert not evaluator.handles(REQUESTS_GPU)
    assert not evaluator.handles(IMPLICIT_GPU)
    space.declare("gpu", GPU)
    assert evaluator.handles(REQUESTS_GPU)
    assert evaluator.handles(IMPLICIT_GPU)
    assert not evaluator.handles(GPU)
    assert not evaluator.handles("limits.example.com/gpu")
    assert not evaluator.handles(f"{IMPLICIT_GPU}2")
