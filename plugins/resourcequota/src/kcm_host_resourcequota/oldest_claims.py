"""Which claim of each pod is the oldest."""

from bisect import bisect_left, bisect_right, insort

from kcm_host.api import Key
from kcm_host_resourcequota.claim_model import ResourceClaim

#: A part that has grown to this size is split, so that no insertion moves more than that.
PART = 512

#: When a claim was created, in Unix seconds, and its name.
Entry = tuple[float, str]


class Ordered:
    """The claims of one pod in order; what a change costs hardly depends on how many they are."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        #: Sorted lists, none of them empty, each before the next.
        self._parts: list[list[Entry]] = []

    @property
    def first(self) -> Entry:
        """The oldest; of several as old the lowest name."""
        return self._parts[0][0]

    def add(self, entry: Entry) -> None:
        """Put one more in its place."""
        if not self._parts:
            self._parts.append([])
        place = self._place(entry)
        part = self._parts[place]
        insort(part, entry)
        if len(part) >= PART:
            self._parts[place : place + 1] = [part[: PART // 2], part[PART // 2 :]]

    def remove(self, entry: Entry) -> None:
        """Take one out that was added."""
        place = self._place(entry)
        part = self._parts[place]
        del part[bisect_left(part, entry)]
        if not part:
            del self._parts[place]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def _place(self, entry: Entry) -> int:
        if len(self._parts) < 2:
            return 0
        return max(bisect_right(self._parts, entry, key=_first) - 1, 0)


class OldestClaims:
    """
    The oldest of the claims that say to belong to each pod, kept up by each claim's change.

    It is the one whose devices its pod is charged for, unless the pod names another (RQ-193).
    """

    def __init__(self) -> None:
        #: Namespace and uid of a pod -> its claims.
        self._of_pod: dict[tuple[str, str], Ordered] = {}
        #: Where each claim is.
        self._places: dict[Key, tuple[tuple[str, str], Entry]] = {}

    def put(self, key: Key, claim: ResourceClaim | None) -> set[Key]:
        """
        Take how a claim is now, None when it has gone.

        Returns the claims that have become the oldest of their pods by this, or are it no more.
        """
        owner = claim.owner if claim is not None else None
        place = None
        if claim is not None and owner is not None:
            place = ((key.namespace, owner.uid), (claim.created, key.name))
        before = self._places.get(key)
        if place == before:
            return set()
        pods = {each[0] for each in (before, place) if each is not None}
        firsts = {self.of(*pod) for pod in pods}
        if before is not None:
            self._remove(key, *before)
        if place is not None:
            self._places[key] = place
            self._of_pod.setdefault(place[0], Ordered()).add(place[1])
        changed = firsts ^ {self.of(*pod) for pod in pods}
        return {each for each in changed if each is not None}

    def of(self, namespace: str, pod_uid: str) -> Key | None:
        """Return the oldest claim of a pod, None if it has none."""
        claims = self._of_pod.get((namespace, pod_uid))
        return Key(claims.first[1], namespace) if claims is not None else None

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def clear(self) -> None:
        """Forget all claims."""
        self._of_pod.clear()
        self._places.clear()

    def _remove(self, key: Key, pod: tuple[str, str], entry: Entry) -> None:
        del self._places[key]
        claims = self._of_pod[pod]
        claims.remove(entry)
        if not claims:
            del self._of_pod[pod]


def _first(part: list[Entry]) -> Entry:
    return part[0]
