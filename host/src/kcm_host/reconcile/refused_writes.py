"""The requests of a controller that the server refuses because permissions are missing."""

import logging
import re
from collections.abc import Callable

import msgspec

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.errors import ConnectionProblem

log = logging.getLogger(__name__)

#: A shorter refusal may be temporary, such as roles that a new server still creates.
REPORT_AFTER_SECONDS = 30.0
#: Longer than any back-off: without another attempt for so long the request is not needed now.
EXPIRY_SECONDS = 1100.0
FORBIDDEN = 403

#: The text of every authorizer; the text of admission, such as a quota, is another one.
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
    The refused requests of one controller, by kind, verb and subresource.

    One success ends a refusal of the same kind, verb and subresource: with a permission in some
    namespaces only, some keys fail, but not the controller. Events are left out, because they are
    best effort.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[tuple[str, str, str], _Refusal] = {}
        self._credentials_problem = ""

    def record(self, write: Write, error: HostError | None = None) -> None:
        """Record the result of a request; `error` is None after a success."""
        if write.kind == EVENT:
            return
        request = (str(write.kind), write.verb, write.subresource)
        remedy = _remedy(error)
        if not remedy:
            if error is None:
                self._refused.pop(request, None)
            return
        now = self._clock()
        refusal = self._refused.setdefault(request, _Refusal(now, now, remedy))
        refusal.last, refusal.remedy = now, remedy

    def record_credentials_problem(self, problem: str) -> bool:
        """Record why the controller has no own credentials, "" when it has; return if changed."""
        is_changed, self._credentials_problem = problem != self._credentials_problem, problem
        return is_changed

    def problems(self) -> list[str]:
        """Return what has been refused for 30 s, with the permissions to grant."""
        now = self._clock()
        self._refused = {
            request: one
            for request, one in self._refused.items()
            if now - one.last < EXPIRY_SECONDS
        }
        lasting = [one for one in self._refused.values() if now - one.since >= REPORT_AFTER_SECONDS]
        remedies = dict.fromkeys(one.remedy for one in lasting)
        own = [self._credentials_problem] if self._credentials_problem else []
        return [*own, *remedies]


def _remedy(error: HostError | None) -> str:
    """Return the refused request and the rule to grant; empty when no permission is missing."""
    if isinstance(error, Unreachable) and isinstance(error.__cause__, ConnectionProblem):
        return f"it has no credentials: {error}"
    if not isinstance(error, ApiError) or error.status != FORBIDDEN:
        return ""
    denied = _DENIED.search(str(error))
    if denied is None:
        return ""
    template = "verbs: ['{verb}'], resources: ['{resource}'], apiGroups: ['{group}']"
    rule = template.format(**denied.groupdict())
    return f"its requests are refused (403): grant {{{rule}}} to '{denied['user']}'"
