"""Which requests of a controller's syncs are refused, because permissions are missing."""

import logging
import re
from collections.abc import Callable

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.auth.errors import ConnectionProblem

log = logging.getLogger(__name__)

#: What is refused for so long is no hiccup, such as roles that a new server still makes.
TOLD_AFTER_SECONDS = 30.0
#: Without another try for so long, longer than any back-off, nobody wants it any more.
FORGOTTEN_AFTER_SECONDS = 1100.0
FORBIDDEN = 403

#: How every authorizer words it; admission, such as a quota, refuses in other words.
_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"'
    r' in API group "(?P<group>[^"]*)"'
)


class _Refusal(msgspec.Struct):
    since: float
    last: float
    remedy: str


class RefusedWrites:
    """
    What the syncs of one controller ask for in vain, by kind, verb and subresource.

    One success of the same sort ends a refusal: a permission in some namespaces only makes some
    keys fail, not the controller. Events are left out, because nobody may rely on them.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[tuple[str, str, str], _Refusal] = {}
        self._identity = ""

    def heard(self, write: Write, error: HostError | None = None) -> None:
        """Take note of how a request ended."""
        if write.kind == EVENT:
            return
        sort = (str(write.kind), write.verb, write.subresource)
        remedy = _remedy(error)
        if not remedy:
            if error is None:
                self._refused.pop(sort, None)
            return
        now = self._clock()
        known = self._refused.setdefault(sort, _Refusal(now, now, remedy))
        known.last, known.remedy = now, remedy

    def no_identity(self, problem: str) -> bool:
        """Note why the controller has no credentials of its own, empty if it has; whether new."""
        is_new, self._identity = problem != self._identity, problem
        return is_new

    def problems(self) -> list[str]:
        """Say what has been refused for 30 s, with what to grant."""
        now = self._clock()
        self._refused = {
            sort: one
            for sort, one in self._refused.items()
            if now - one.last < FORGOTTEN_AFTER_SECONDS
        }
        lasting = [one for one in self._refused.values() if now - one.since >= TOLD_AFTER_SECONDS]
        told = dict.fromkeys(one.remedy for one in lasting)
        return [*([self._identity] if self._identity else []), *told]


def _remedy(error: HostError | None) -> str:
    """Give what is refused and the rule to grant; empty when no permission is missing."""
    if isinstance(error, Unreachable) and isinstance(error.__cause__, ConnectionProblem):
        return f"it has no credentials: {error}"
    if not isinstance(error, ApiError) or error.status != FORBIDDEN:
        return ""
    denied = _DENIED.search(str(error))
    if denied is None:
        return ""
    what = "verbs: ['{verb}'], resources: ['{resource}'], apiGroups: ['{group}']"
    rule = what.format(**denied.groupdict())
    return f"its requests are refused (403): grant {{{rule}}} to '{denied['user']}'"
