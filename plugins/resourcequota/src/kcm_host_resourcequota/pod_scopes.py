"""Which scopes of a quota a pod is in."""

import sys

from kcm_host_resourcequota.pod_requests import specified_needs
from kcm_host_resourcequota.pod_shape import Shape
from kcm_host_resourcequota.usage import Vector

_BEST_EFFORT = "BestEffort"
_COMPUTE = ("cpu", "memory")


def vector_of(shape: Shape) -> Vector:
    """Give everything that scopes can ask of a pod (RQ-80 to RQ-86)."""
    best_effort = _is_best_effort(shape)
    scopes = {
        "Terminating" if shape.has_deadline else "NotTerminating",
        _BEST_EFFORT if best_effort else "NotBestEffort",
    }
    if shape.crosses_namespaces:
        scopes.add("CrossNamespacePodAffinity")
    names = {sys.intern(shape.priority_class)} if shape.priority_class else set()
    return Vector(frozenset(scopes), "PriorityClass", frozenset(names))


def _is_best_effort(shape: Shape) -> bool:
    """
    Say whether a pod's QoS class is `BestEffort` (RQ-95 to RQ-97).

    Where the server has not said it: when nothing asks for or is limited in cpu or memory. Any
    such amount above 0 makes one of the other two classes, and which one no scope asks.
    """
    if shape.qos_class:
        return shape.qos_class == _BEST_EFFORT
    return not any(
        name in each and each[name].nano > 0
        for needs in specified_needs(shape)
        for each in (needs.requests, needs.limits)
        for name in _COMPUTE
    )
