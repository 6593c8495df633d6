"""
The requests and limits of a pod, over all its containers.

This is the arithmetic of release 1.36: for each container the maximum of what is specified,
allocated and in effect; then the sum.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kcm_host.api import Quantity, QuantityError

ResourceList = Mapping[str, Quantity]

#: A resource list as it is in JSON.
RawResourceList = dict[str, str | int | float | None]

NO_RESOURCES: ResourceList = {}

HUGE_PAGES_PREFIX = "hugepages-"

_COMPUTE = frozenset({"cpu", "memory"})


class RawRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits as they are in JSON."""

    requests: RawResourceList | None = None
    limits: RawResourceList | None = None


_decode_requirements = msgspec.json.Decoder(RawRequirements).decode
_decode_list = msgspec.json.Decoder(RawResourceList).decode


class ContainerShape(msgspec.Struct, frozen=True, gc=False):
    """One container of a spec; `resources` is JSON, empty if there is none."""

    name: str
    sidecar: bool
    resources: bytes


class StatusShape(msgspec.Struct, frozen=True, gc=False):
    """The status of one container; the lists are JSON, empty if there is none."""

    name: str
    resources: bytes
    allocated: bytes


class PodShape(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    All that the contribution of a pod depends on, except time.

    Hashable, because pods of one template have equal shapes: their contribution is computed once.
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


class RequestsAndLimits(msgspec.Struct, frozen=True):
    """The requests and limits of a container or of a whole pod."""

    requests: ResourceList = NO_RESOURCES
    limits: ResourceList = NO_RESOURCES


def pod_requests_and_limits(shape: PodShape) -> RequestsAndLimits:
    """Return the requests and limits of a pod, overhead included (RQ-112 to RQ-127)."""
    statuses = {each.name: each for each in shape.statuses}
    apps = [_in_effect(each, statuses, shape) for each in shape.containers]
    inits = [
        (each.sidecar, _in_effect(each, statuses if each.sidecar else {}, shape))
        for each in shape.init_containers
    ]
    requests = _aggregate([each.requests for each in apps], [(s, n.requests) for s, n in inits])
    limits = _aggregate([each.limits for each in apps], [(s, n.limits) for s, n in inits])
    return _with_overhead(_with_pod_level(RequestsAndLimits(requests, limits), shape), shape)


def specified_requests_and_limits(shape: PodShape) -> Sequence[RequestsAndLimits]:
    """Return what the QoS class depends on: of the pod level, or of each container (RQ-96)."""
    if shape.pod_resources:
        return [_parse(shape.pod_resources)]
    return [_parse(each.resources) for each in (*shape.containers, *shape.init_containers)]


def _in_effect(
    container: ContainerShape, statuses: Mapping[str, StatusShape], shape: PodShape
) -> RequestsAndLimits:
    """
    Return the values of one container, the maximum during a resize (RQ-112 to RQ-121).

    An infeasible resize does not count. A status without resources is ignored (section 19).
    """
    specified = _parse(container.resources)
    status = statuses.get(container.name)
    if status is None or not status.resources:
        return specified
    actuated = _parse(status.resources)
    allocated = parse_list(_decode_list(status.allocated)) if status.allocated else NO_RESOURCES
    if shape.infeasible:
        return RequestsAndLimits(max_lists([actuated.requests, allocated]), actuated.limits)
    requests = max_lists([specified.requests, actuated.requests, allocated])
    return RequestsAndLimits(requests, max_lists([specified.limits, actuated.limits]))


def _aggregate(
    apps: Iterable[ResourceList], inits: Iterable[tuple[bool, ResourceList]]
) -> ResourceList:
    """
    Return the maximum over the lifetime of a pod (RQ-116).

    Init containers run one after the other, together with the sidecars that were started before
    them; later all sidecars run together with the app containers.
    """
    sidecars: ResourceList = NO_RESOURCES
    steps: list[ResourceList] = []
    running = list(apps)
    for sidecar, each in inits:
        if sidecar:
            running.append(each)
            sidecars = sum_lists([sidecars, each])
        else:
            steps.append(sum_lists([each, sidecars]))
    return max_lists([sum_lists(running), *steps])


def _with_pod_level(pod: RequestsAndLimits, shape: PodShape) -> RequestsAndLimits:
    """Replace the values of names that the pod level specifies (RQ-123 to RQ-126)."""
    if not shape.pod_resources:
        return pod
    own = _parse(shape.pod_resources)
    return RequestsAndLimits(
        {**pod.requests, **_supported(own.requests)}, {**pod.limits, **_supported(own.limits)}
    )


def _with_overhead(pod: RequestsAndLimits, shape: PodShape) -> RequestsAndLimits:
    """Add the overhead of a pod; to the limits only where there is one (RQ-127)."""
    if not shape.overhead:
        return pod
    overhead = parse_list(_decode_list(shape.overhead))
    limited = {
        name: quantity
        for name, quantity in overhead.items()
        if name in pod.limits and pod.limits[name].nano
    }
    return RequestsAndLimits(sum_lists([pod.requests, overhead]), sum_lists([pod.limits, limited]))


def _supported(own: ResourceList) -> ResourceList:
    return {
        name: quantity
        for name, quantity in own.items()
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX)
    }


def _parse(resources: bytes) -> RequestsAndLimits:
    if not resources:
        return RequestsAndLimits()
    raw = _decode_requirements(resources)
    return RequestsAndLimits(parse_list(raw.requests), parse_list(raw.limits))


def parse_list(raw: RawResourceList | None) -> ResourceList:
    """Return the quantities of a list; raise ValueError with the invalid resource (RQ-75)."""
    try:
        return {name: Quantity.parse(text) for name, text in raw.items()} if raw else NO_RESOURCES
    except QuantityError as error:
        name = next(name for name, text in (raw or {}).items() if not _is_quantity(text))
        raise ValueError(f"resource {name!r}: {error}") from error


def sum_lists(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Return the sum name by name, in the order given (RQ-303)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = result[name] + quantity if name in result else quantity
    return result


def max_lists(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    """Return the maximum name by name; of equal quantities the earlier one is kept (RQ-305)."""
    result: dict[str, Quantity] = {}
    for each in lists:
        for name, quantity in each.items():
            result[name] = max(result[name], quantity) if name in result else quantity
    return result


def _is_quantity(text: str | float | None) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
