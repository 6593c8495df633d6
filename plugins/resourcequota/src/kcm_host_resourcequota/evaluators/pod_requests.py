"""The part of a pod that pods made from one template share."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kcm_host_resourcequota.quantity import (
    NOTHING,
    Requirements,
    ResourceList,
    Written,
    highest,
    read_list,
    total,
)


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


HUGE_PAGES_PREFIX = "hugepages-"

_requirements = msgspec.json.Decoder(Requirements).decode
_written = msgspec.json.Decoder(Written).decode
_COMPUTE = frozenset({"cpu", "memory"})


class Needs(msgspec.Struct, frozen=True):
    """The requests and limits of a container or of a whole pod."""

    requests: ResourceList = NOTHING
    limits: ResourceList = NOTHING


def pod_needs(shape: Shape) -> Needs:
    """Give the requests and limits of a pod, overhead included (RQ-112 to RQ-127)."""
    statuses = {each.name: each for each in shape.statuses}
    apps = [_in_effect(each, statuses, shape) for each in shape.containers]
    inits = [
        (each.sidecar, _in_effect(each, statuses if each.sidecar else {}, shape))
        for each in shape.init_containers
    ]
    requests = _aggregate([each.requests for each in apps], [(s, n.requests) for s, n in inits])
    limits = _aggregate([each.limits for each in apps], [(s, n.limits) for s, n in inits])
    return _with_overhead(_with_pod_level(Needs(requests, limits), shape), shape)


def specified_needs(shape: Shape) -> Sequence[Needs]:
    """Give what decides the QoS class: the pod's own needs, or each container's (RQ-96)."""
    if shape.pod_resources:
        return [_read(shape.pod_resources)]
    return [_read(each.resources) for each in (*shape.containers, *shape.init_containers)]


def _in_effect(
    container: ContainerShape, statuses: Mapping[str, StatusShape], shape: Shape
) -> Needs:
    """
    Give the needs of one container, a resize under way at its highest (RQ-112 to RQ-121).

    An infeasible resize does not count. A status without resources says nothing (section 19).
    """
    specified = _read(container.resources)
    status = statuses.get(container.name)
    if status is None or not status.resources:
        return specified
    actuated = _read(status.resources)
    allocated = read_list(_written(status.allocated)) if status.allocated else NOTHING
    if shape.infeasible:
        return Needs(highest([actuated.requests, allocated]), actuated.limits)
    requests = highest([specified.requests, actuated.requests, allocated])
    return Needs(requests, highest([specified.limits, actuated.limits]))


def _aggregate(
    apps: Iterable[ResourceList], inits: Iterable[tuple[bool, ResourceList]]
) -> ResourceList:
    """
    Give the highest need at any time of a pod's life (RQ-116).

    Init containers run one after the other, beside the sidecars that were started before them;
    later all sidecars run beside the app containers.
    """
    sidecars: ResourceList = NOTHING
    steps: list[ResourceList] = []
    running = list(apps)
    for sidecar, each in inits:
        if sidecar:
            running.append(each)
            sidecars = total([sidecars, each])
        else:
            steps.append(total([each, sidecars]))
    return highest([total(running), *steps])


def _with_pod_level(needs: Needs, shape: Shape) -> Needs:
    """Replace what the pod as a whole says about supported names (RQ-123 to RQ-126)."""
    if not shape.pod_resources:
        return needs
    own = _read(shape.pod_resources)
    return Needs(
        {**needs.requests, **_supported(own.requests)}, {**needs.limits, **_supported(own.limits)}
    )


def _with_overhead(needs: Needs, shape: Shape) -> Needs:
    """Add what running the pod costs; to limits only where there is one (RQ-127)."""
    if not shape.overhead:
        return needs
    overhead = read_list(_written(shape.overhead))
    limited = {
        name: quantity
        for name, quantity in overhead.items()
        if name in needs.limits and needs.limits[name].nano
    }
    return Needs(total([needs.requests, overhead]), total([needs.limits, limited]))


def _supported(own: ResourceList) -> ResourceList:
    return {
        name: quantity
        for name, quantity in own.items()
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX)
    }


def _read(resources: bytes) -> Needs:
    if not resources:
        return Needs()
    written = _requirements(resources)
    return Needs(read_list(written.requests), read_list(written.limits))
