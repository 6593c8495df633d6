"""Missing permissions make a controller not ready, once they last; other refusals do not."""

import pytest
from host.reconcile.sync_bench import CLAIM, NODE, A

from kcm_host.api.errors import ApiError, HostError, Unreachable
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.reconcile.refused_writes import RefusedWrites

PATCH = Write(NODE, A, "patch")
DENIED = (
    'patch /api/v1/nodes/a: 403 Forbidden: nodes "a" is forbidden: User "system:ttl" cannot patch '
    'resource "nodes" in API group "" at the cluster scope'
)
REMEDY = (
    "its requests are refused (403): grant {verbs: ['patch'], resources: ['nodes'], "
    "apiGroups: ['']} to 'system:ttl'"
)


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at rest."""
    return Clock()


@pytest.fixture
def refusals(clock: Clock) -> RefusedWrites:
    """The refusals of one controller, none so far."""
    return RefusedWrites(clock)


def denied(text: str = DENIED) -> ApiError:
    """Give the error of a request that is refused."""
    return ApiError(text, status=403, reason="Forbidden")


def test_what_is_refused_for_30_s_is_told_with_its_rule(
    refusals: RefusedWrites, clock: Clock
) -> None:
    """Not at once, because a new server makes its roles first (F-81)."""
    refusals.heard(PATCH, denied())
    clock.now += 29.9
    refusals.heard(PATCH, denied())
    assert refusals.problems() == []
    clock.now += 0.2
    assert refusals.problems() == [REMEDY]


def test_a_success_ends_it(refusals: RefusedWrites, clock: Clock) -> None:
    """A request of the same sort that is let through ends it, one of another does not (F-81)."""
    refusals.heard(PATCH, denied())
    clock.now += 31
    refusals.heard(Write(NODE, A, "patch", subresource="status"))
    refusals.heard(Write(CLAIM, A, "patch"))
    assert refusals.problems() == [REMEDY]
    refusals.heard(PATCH)
    assert refusals.problems() == []
    refusals.heard(PATCH, denied())
    assert refusals.problems() == []


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
    refusals: RefusedWrites, clock: Clock, error: HostError
) -> None:
    """Admission refuses objects, not controllers, also with 403 (F-81)."""
    refusals.heard(PATCH, error)
    clock.now += 31
    refusals.heard(PATCH, error)
    assert refusals.problems() == []


def test_an_error_of_another_sort_ends_nothing(refusals: RefusedWrites, clock: Clock) -> None:
    """A cut connection between two refusals says nothing about permissions (F-81)."""
    refusals.heard(PATCH, denied())
    clock.now += 31
    refusals.heard(PATCH, Unreachable("patch: no answer"))
    assert refusals.problems() == [REMEDY]


def test_what_nobody_tries_any_more_is_forgotten(refusals: RefusedWrites, clock: Clock) -> None:
    """When no key needs it for longer than any back-off, it holds nothing up (F-81)."""
    refusals.heard(PATCH, denied())
    clock.now += 1000
    assert refusals.problems() == [REMEDY]
    clock.now += 101
    assert refusals.problems() == []


def test_events_hold_nothing_up(refusals: RefusedWrites, clock: Clock) -> None:
    """Nobody may rely on Events: a controller works without them (F-81)."""
    refusals.heard(Write(EVENT, A, "create"), denied())
    clock.now += 31
    assert refusals.problems() == []


def test_requests_without_credentials_are_told(refusals: RefusedWrites, clock: Clock) -> None:
    """A token that is no longer given is as good as a refusal (F-81)."""
    error = Unreachable("no token for service account 'kube-system/ttl': refused")
    error.__cause__ = ConnectionProblem("no token", exit_code=1)
    refusals.heard(PATCH, error)
    clock.now += 31
    (problem,) = refusals.problems()
    assert problem.startswith("it has no credentials: no token for service account")


def test_a_failed_proof_is_told_at_once(refusals: RefusedWrites) -> None:
    """Credentials that are asked for at the start need no 30 s to be missed (F-81)."""
    assert refusals.no_identity("no token")
    assert not refusals.no_identity("no token")
    assert refusals.problems() == ["no token"]
    assert refusals.no_identity("")
    assert refusals.problems() == []
