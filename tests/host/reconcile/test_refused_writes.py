"""Missing permissions make a controller not ready, once they last; other errors do not."""

import pytest
from clocks import Clock
from host.reconcile.worker_rig import CONFIG_MAP, NODE, A

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.errors import ConnectionProblem
from kcm_host.reconcile.sender import RefusedWrites

PATCH = Write(kind=NODE, key=A, verb="patch")
DENIED = (
    'patch /api/v1/nodes/a: 403 Forbidden: nodes "a" is forbidden: User "system:ttl" cannot patch '
    'resource "nodes" in API group "" at the cluster scope'
)
REMEDY = (
    "its requests are refused (403): grant {verbs: ['patch'], resources: ['nodes'], "
    "apiGroups: ['']} to 'system:ttl'"
)


@pytest.fixture
def clock() -> Clock:
    """A clock at rest."""
    return Clock()


@pytest.fixture
def refused_writes(clock: Clock) -> RefusedWrites:
    """The refused writes of one controller, none so far."""
    return RefusedWrites(clock)


def denied(text: str = DENIED) -> ApiError:
    """Return the error of a request that is refused."""
    return ApiError(text, status=403, reason="Forbidden")


def test_a_refusal_of_30_s_is_a_problem_with_its_rule(
    refused_writes: RefusedWrites, clock: Clock
) -> None:
    """Not at once, because a new server makes its roles first (F-81)."""
    refused_writes.record(PATCH, denied())
    clock.now += 29.9
    refused_writes.record(PATCH, denied())
    assert refused_writes.problems() == []
    clock.now += 0.2
    assert refused_writes.problems() == [REMEDY]


def test_a_success_ends_it(refused_writes: RefusedWrites, clock: Clock) -> None:
    """A request of the same sort that is let through ends it, one of another does not (F-81)."""
    refused_writes.record(PATCH, denied())
    clock.now += 31
    refused_writes.record(Write(kind=NODE, key=A, verb="patch", subresource="status"))
    refused_writes.record(Write(kind=CONFIG_MAP, key=A, verb="patch"))
    assert refused_writes.problems() == [REMEDY]
    refused_writes.record(PATCH)
    assert refused_writes.problems() == []
    refused_writes.record(PATCH, denied())
    assert refused_writes.problems() == []


@pytest.mark.parametrize(
    "error",
    [
        denied(
            'create: 403 Forbidden: pods "p" is forbidden: exceeded quota: q, requested: pods=1'
        ),
        denied("create: 403 Forbidden: unable to create content: namespace is being terminated"),
        ApiError("patch: 409 Conflict", status=409),
        ApiError(DENIED, status=500),
        Unreachable("patch: no answer"),
    ],
    ids=["quota", "namespace", "conflict", "no refusal", "no answer"],
)
def test_other_errors_are_no_missing_permission(
    refused_writes: RefusedWrites, clock: Clock, error: HostError
) -> None:
    """Admission refuses objects, not controllers, also with 403 (F-81)."""
    refused_writes.record(PATCH, error)
    clock.now += 31
    refused_writes.record(PATCH, error)
    assert refused_writes.problems() == []


def test_an_error_of_another_sort_ends_nothing(refused_writes: RefusedWrites, clock: Clock) -> None:
    """A cut connection between two refused_writes says nothing about permissions (F-81)."""
    refused_writes.record(PATCH, denied())
    clock.now += 31
    refused_writes.record(PATCH, Unreachable("patch: no answer"))
    assert refused_writes.problems() == [REMEDY]


def test_a_request_that_is_not_repeated_expires(
    refused_writes: RefusedWrites, clock: Clock
) -> None:
    """When no key needs it for longer than any back-off, it holds nothing up (F-81)."""
    refused_writes.record(PATCH, denied())
    clock.now += 1000
    assert refused_writes.problems() == [REMEDY]
    clock.now += 101
    assert refused_writes.problems() == []


def test_refused_events_are_no_problem(refused_writes: RefusedWrites, clock: Clock) -> None:
    """Nobody may rely on Events: a controller works without them (F-81)."""
    refused_writes.record(Write(kind=EVENT, key=A, verb="create"), denied())
    clock.now += 31
    assert refused_writes.problems() == []


def test_requests_without_credentials_are_a_problem(
    refused_writes: RefusedWrites, clock: Clock
) -> None:
    """A token that is no longer given is as good as a refusal (F-81)."""
    error = Unreachable("no token for service account 'kube-system/ttl': refused")
    error.__cause__ = ConnectionProblem("no token", exit_code=1)
    refused_writes.record(PATCH, error)
    clock.now += 31
    (problem,) = refused_writes.problems()
    assert problem.startswith("it has no credentials: no token for service account")


def test_missing_own_credentials_are_a_problem_at_once(refused_writes: RefusedWrites) -> None:
    """Credentials that are asked for at the start need no 30 s to be missed (F-81)."""
    assert refused_writes.record_credentials_problem("no token")
    assert not refused_writes.record_credentials_problem("no token")
    assert refused_writes.problems() == ["no token"]
    assert refused_writes.record_credentials_problem("")
    assert refused_writes.problems() == []
