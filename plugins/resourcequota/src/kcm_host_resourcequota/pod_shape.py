"""The part of a pod that pods made from one template share."""

import msgspec


class ContainerShape(msgspec.Struct, frozen=True, gc=False):
    """One container of a template; `resources` is JSON, empty where there is none."""

    name: str
    sidecar: bool
    resources: bytes


class StatusShape(msgspec.Struct, frozen=True, gc=False):
    """What a node says of one container; the lists are JSON, empty where there is none."""

    name: str
    resources: bytes
    allocated: bytes


class Shape(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    All that a pod's contribution depends on, but for time.

    Hashable, because pods of one template have equal ones: the contribution is then computed once
    for all of them.
    """

    containers: tuple[ContainerShape, ...]
    init_containers: tuple[ContainerShape, ...]
    statuses: tuple[StatusShape, ...]
    pod_resources: bytes
    overhead: bytes
    ended: bool
    infeasible: bool
    has_deadline: bool
    qos_class: str
    priority_class: str
    crosses_namespaces: bool
