"""Which kinds are followed because quotas mention their names, and which of them can answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcm_host.api import AnyWatch, Kind, UndeclaredRead, View

#: A kind that no quota mentions any more is followed for so long, in case one does again (D-12).
KEEP_SECONDS = 300.0
#: A kind that is new is waited for so long before a quota is written without it: admission
#: refuses requests whose usage the status does not tell (D-1, RQ-254).
PATIENCE_SECONDS = 5.0


class Followed:
    """One kind that is followed; ready once all its initial objects have been applied."""

    __slots__ = ("is_ready", "needed_at", "since", "watch")

    def __init__(self, watch: AnyWatch, *, now: float) -> None:
        self.watch = watch
        self.since = now
        self.needed_at = now
        self.is_ready = False


class Following:
    """The kinds followed at present; `clock` gives seconds on a monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._followed: dict[str, Followed] = {}

    def turn_to(
        self,
        needed: Mapping[str, Kind],
        *,
        is_current: Callable[[Kind], bool],
        watch: Callable[[Kind], AnyWatch],
    ) -> Sequence[str]:
        """
        Follow what is needed, and give the resources that are not followed any more.

        A kind in another version is another one. One that nobody needs is kept for a while as
        long as it is current: still the one that would be followed.
        """
        ended = [
            resource
            for resource, each in self._followed.items()
            if self._ends(each, needed.get(resource), is_current)
        ]
        for resource in ended:
            del self._followed[resource]
        self.want(needed, watch=watch)
        return ended

    def want(self, needed: Mapping[str, Kind], *, watch: Callable[[Kind], AnyWatch]) -> bool:
        """Follow these as well; True if some were not followed yet."""
        now = self._clock()
        grown = False
        for resource, kind in needed.items():
            known = self._followed.get(resource)
            if known is None:
                known = self._followed[resource] = Followed(watch(kind), now=now)
                grown = True
            known.needed_at = now
        return grown

    def _ends(
        self, followed: Followed, needed: Kind | None, is_current: Callable[[Kind], bool]
    ) -> bool:
        if needed is not None:
            return needed != followed.watch.kind
        idle = self._clock() - followed.needed_at
        return idle >= KEEP_SECONDS or not is_current(followed.watch.kind)

    def watches(self) -> Sequence[AnyWatch]:
        """Give the watches of all of them."""
        return [each.watch for each in self._followed.values()]

    def watch_of(self, resource: str) -> AnyWatch:
        """Give the watch of one of them."""
        return self._followed[resource].watch

    def ready(self, resource: str) -> None:
        """Take note that all objects of a resource have been applied (RQ-B22)."""
        if resource in self._followed:
            self._followed[resource].is_ready = True

    def all(self) -> Sequence[str]:
        """Give the resources that are followed."""
        return list(self._followed)

    def has(self, resource: str, kind: Kind) -> bool:
        """Whether a resource is followed as this very kind."""
        known = self._followed.get(resource)
        return known is not None and known.watch.kind == kind

    def all_ready(self) -> Sequence[str]:
        """Give the resources whose objects have all been applied."""
        return [resource for resource, each in self._followed.items() if each.is_ready]

    def is_ready(self, resource: str) -> bool:
        """Whether a resource is followed and all its objects have been applied."""
        known = self._followed.get(resource)
        return known is not None and known.is_ready

    def problem(self, resource: str, view: View) -> str:
        """Say why a resource cannot be counted yet; empty if it can (RQ-71)."""
        known = self._followed.get(resource)
        if known is not None and known.is_ready:
            return ""
        if known is None:
            return f"{resource} are not followed yet"
        return _stream_problem(known, view) or f"{resource} are still being listed"

    def patience(self, resources: Iterable[str], view: View) -> float:
        """
        Give the seconds that are worth waiting for these resources.

        0 when all are ready, or when what is not ready has a problem or has had its time.
        """
        now = self._clock()
        waits = [0.0]
        for resource in resources:
            known = self._followed.get(resource)
            if known is not None and not known.is_ready and not _stream_problem(known, view):
                waits.append(known.since + PATIENCE_SECONDS - now)
        return max(waits)


def _stream_problem(followed: Followed, view: View) -> str:
    """Say why the objects cannot be followed; empty also before the host has begun to."""
    watch = followed.watch
    try:
        return view.of(watch.kind, watch.model).problem
    except UndeclaredRead:
        return ""
