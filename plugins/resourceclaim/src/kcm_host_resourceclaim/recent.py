"""A set of bounded size that forgets what was used longest ago."""

from collections import OrderedDict


class RecentUids:
    """
    UIDs of objects that are gone, to know it before the stores do or without asking the server.

    Finding a UID counts as use (RC-16).
    """

    def __init__(self, capacity: int = 500) -> None:
        self._capacity = capacity
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """Remember one more, and forget the one used longest ago when there are too many."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._capacity:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        if uid not in self._uids:
            return False
        self._uids.move_to_end(uid)
        return True

    def __len__(self) -> int:
        return len(self._uids)
