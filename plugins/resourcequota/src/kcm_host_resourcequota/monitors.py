"""The resources that are watched because quotas limit their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm_host.api import AnyWatch, Kind, UndeclaredRead, View

#: A resource that no quota needs any more is watched for this time, in case one does again (D-12).
IDLE_RETENTION_SECONDS = 300.0
#: A quota waits for the first list of a new resource for this time: admission rejects requests
#: whose usage is not in the status (D-1, RQ-254).
INITIAL_SYNC_WAIT_SECONDS = 5.0


class Monitor:
    """One watched resource; synced once all objects of its first list have been applied."""

    __slots__ = ("is_synced", "last_needed", "since", "watch")

    def __init__(self, watch: AnyWatch, *, now: float) -> None:
        self.watch = watch
        self.since = now
        self.last_needed = now
        self.is_synced = False


class MonitorSet:
    """The monitors by resource; `clock` returns seconds on a monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._monitors: dict[str, Monitor] = {}

    def sync(
        self,
        needed: Mapping[str, Kind],
        *,
        is_current: Callable[[Kind], bool],
        watch: Callable[[Kind], AnyWatch],
    ) -> Sequence[str]:
        """
        Add the monitors that are needed, and return the resources whose monitors were removed.

        A resource in another version gets another monitor. A monitor that is not needed is kept for
        a while, as long as its kind is current: a new monitor would watch the same kind.
        """
        removed = [
            resource
            for resource, monitor in self._monitors.items()
            if not is_current(monitor.watch.kind)
            or (resource not in needed and self._is_idle(monitor))
        ]
        for resource in removed:
            del self._monitors[resource]
        self.ensure(needed, watch=watch)
        return removed

    def ensure(self, needed: Mapping[str, Kind], *, watch: Callable[[Kind], AnyWatch]) -> bool:
        """Add the monitors that are missing; return whether there were any."""
        now = self._clock()
        has_new = False
        for resource, kind in needed.items():
            monitor = self._monitors.get(resource)
            if monitor is None:
                monitor = self._monitors[resource] = Monitor(watch(kind), now=now)
                has_new = True
            monitor.last_needed = now
        return has_new

    def _is_idle(self, monitor: Monitor) -> bool:
        return self._clock() - monitor.last_needed >= IDLE_RETENTION_SECONDS

    def watches(self) -> Sequence[AnyWatch]:
        """Return the watches of all monitors."""
        return [monitor.watch for monitor in self._monitors.values()]

    def watch_of(self, resource: str) -> AnyWatch:
        """Return the watch of one monitor."""
        return self._monitors[resource].watch

    def mark_synced(self, resource: str) -> None:
        """Record that all objects of a resource have been applied (RQ-B22)."""
        if resource in self._monitors:
            self._monitors[resource].is_synced = True

    def resources(self) -> Sequence[str]:
        """Return the resources that are watched."""
        return list(self._monitors)

    def has(self, resource: str, kind: Kind) -> bool:
        """Return whether a resource is watched as this very kind."""
        monitor = self._monitors.get(resource)
        return monitor is not None and monitor.watch.kind == kind

    def synced_resources(self) -> Sequence[str]:
        """Return the resources whose objects have all been applied."""
        return [resource for resource, monitor in self._monitors.items() if monitor.is_synced]

    def is_synced(self, resource: str) -> bool:
        """Return whether a resource is watched and all its objects have been applied."""
        monitor = self._monitors.get(resource)
        return monitor is not None and monitor.is_synced

    def problem(self, resource: str, view: View) -> str:
        """Return why a resource cannot be counted yet; empty if it can (RQ-71)."""
        monitor = self._monitors.get(resource)
        if monitor is not None and monitor.is_synced:
            return ""
        if monitor is None:
            return f"{resource} are not watched yet"
        return _watch_problem(monitor, view) or f"{resource} are still being listed"

    def seconds_to_wait(self, resources: Iterable[str], view: View) -> float:
        """
        Return how many seconds it makes sense to wait for the first lists of resources.

        0 when all are synced, or when the others have a problem or have had their time.
        """
        now = self._clock()
        waits = [0.0]
        for resource in resources:
            monitor = self._monitors.get(resource)
            if monitor is not None and not monitor.is_synced and not _watch_problem(monitor, view):
                waits.append(monitor.since + INITIAL_SYNC_WAIT_SECONDS - now)
        return max(waits)


def _watch_problem(monitor: Monitor, view: View) -> str:
    """Return why a watch fails; empty if it does not, and before the host has started it."""
    watch = monitor.watch
    try:
        return view.of(watch.kind, watch.model).problem
    except UndeclaredRead:
        return ""
