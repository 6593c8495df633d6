"""When credentials are fetched anew, and what happens when that fails."""

import asyncio
from pathlib import Path

import pytest
from host.client.conftest import Connected

from kcm_host.client.auth.credentials import Credentials, RequestCredentials, renewal_time
from kcm_host.client.errors import ConnectionProblem


class Source:
    """Hands out numbered tokens that live 1000 s, on times that the test sets."""

    def __init__(self) -> None:
        self.now = 5000.0
        self.running = 70.0
        self.asked = 0
        self.broken = False
        self.open = asyncio.Event()
        self.open.set()
        self.credentials = Credentials(
            self.fetch, clock=lambda: self.now, monotonic=lambda: self.running
        )

    async def fetch(self) -> RequestCredentials:
        self.asked += 1
        number = self.asked
        await self.open.wait()
        if self.broken:
            raise ConnectionProblem("the source is broken")
        return RequestCredentials(
            headers={"Authorization": f"Bearer {number}"},
            renew_at=self.now + 900,
            expires_at=self.now + 1000,
        )


@pytest.fixture
async def source() -> Source:
    """A source with its credentials."""
    return Source()


async def token(credentials: Credentials) -> str:
    """The bare token of the current headers."""
    return (await credentials.headers())["Authorization"].removeprefix("Bearer ")


async def test_a_fresh_access_is_kept(source: Source) -> None:
    """Until its renewal is due the same access is handed out without asking the source."""
    first = await source.credentials.current()
    source.now += 899
    assert await source.credentials.current() is first
    assert source.asked == 1


async def test_it_is_renewed_before_it_expires(source: Source) -> None:
    """From the renewal time on, before expiry, the source is asked anew."""
    assert await token(source.credentials) == "1"
    source.now += 900
    assert await token(source.credentials) == "2"


async def test_many_callers_are_one_question(source: Source) -> None:
    """Requests that need a renewal at the same time share one."""
    source.open.clear()
    callers = [asyncio.create_task(token(source.credentials)) for _ in range(20)]
    await asyncio.sleep(0)
    source.open.set()
    assert await asyncio.gather(*callers) == ["1"] * 20
    assert source.asked == 1


async def test_a_cancelled_caller_leaves_the_others_alone(source: Source) -> None:
    """When the request that began a renewal is cancelled, the others still get its result."""
    source.open.clear()
    first = asyncio.create_task(token(source.credentials))
    await asyncio.sleep(0)
    second = asyncio.create_task(token(source.credentials))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    source.open.set()
    assert await second == "1"
    assert (first.cancelled(), source.asked) == (True, 1)


async def test_a_refused_access_is_replaced(source: Source) -> None:
    """After a 401 the next request gets a new access, though the old one looked good."""
    refused = await source.credentials.current()
    source.credentials.invalidate(refused)
    assert await token(source.credentials) == "2"


async def test_a_late_refusal_of_an_old_access_changes_nothing(source: Source) -> None:
    """A 401 to an access that was replaced meanwhile does not throw the newer one away."""
    old = await source.credentials.current()
    source.credentials.invalidate()
    await source.credentials.current()
    source.credentials.invalidate(old)
    assert await token(source.credentials) == "2"
    assert source.asked == 2


async def test_a_failed_renewal_keeps_what_still_holds(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    """While the old access is valid a failing source is logged once and rests for 10 s."""
    await source.credentials.current()
    source.broken = True
    source.now += 900
    for _ in range(3):
        assert await token(source.credentials) == "1"
    assert source.asked == 2
    source.running += 10
    assert await token(source.credentials) == "1"
    assert source.asked == 3
    assert caplog.messages == ["credentials not renewed"]


async def test_an_expired_access_is_not_handed_out(source: Source) -> None:
    """Once the old access expired, callers get the source's problem."""
    await source.credentials.current()
    source.broken = True
    source.now += 1000
    with pytest.raises(ConnectionProblem, match="the source is broken"):
        await source.credentials.current()


async def test_a_refused_access_is_not_handed_out_when_renewal_fails(source: Source) -> None:
    """After a 401 a failing source is an error, although the old access has not expired."""
    await source.credentials.current()
    source.broken = True
    source.credentials.invalidate()
    with pytest.raises(ConnectionProblem, match="the source is broken"):
        await source.credentials.current()


async def test_a_failing_source_rests_and_then_recovers(source: Source) -> None:
    """Within 10 s of a failure the source is left alone; after that it may heal."""
    source.broken = True
    for _ in range(5):
        with pytest.raises(ConnectionProblem):
            await source.credentials.current()
    assert source.asked == 1
    source.broken = False
    source.running += 10
    assert await token(source.credentials) == "2"


async def test_a_clock_set_back_prolongs_no_rest(source: Source) -> None:
    """F-21: the rest of a failed source is counted in seconds that pass, whatever the clock."""
    source.broken = True
    with pytest.raises(ConnectionProblem):
        await source.credentials.current()
    source.broken = False
    source.now -= 3600
    source.running += 10
    assert await token(source.credentials) == "2"


async def test_a_renewal_that_did_not_help_is_not_repeated(source: Source) -> None:
    """F-29: while the server refuses whatever the source gives, it is asked every 10 s only."""
    for _ in range(20):
        source.credentials.invalidate(await source.credentials.current())
    assert source.asked == 2
    source.running += 10
    for _ in range(20):
        source.credentials.invalidate(await source.credentials.current())
    assert source.asked == 3


async def test_an_expired_access_is_renewed_during_a_rest(source: Source) -> None:
    """F-29: the rest is for refusals; what has expired is fetched at once."""
    source.credentials.invalidate(await source.credentials.current())
    assert await token(source.credentials) == "2"
    source.now += 900
    assert await token(source.credentials) == "3"


@pytest.mark.parametrize(
    ("life", "after"), [(3600, 3540), (300, 240), (100, 80), (10, 8), (0, 1), (-500, 1)]
)
def test_the_time_of_renewal(life: int, after: int) -> None:
    """A minute before expiry, or after four fifths of a short life, but never at once."""
    assert renewal_time(now=1000.0, expires_at=1000.0 + life) == 1000.0 + after


async def test_a_token_file_is_read_again_every_minute(
    connected: Connected, tmp_path: Path
) -> None:
    """
    A replaced token file is noticed after a minute, whatever the clock says (F-21); an unreadable
    one keeps the old token.
    """
    running = 70.0
    path = tmp_path / "token"
    path.write_text("first\n")
    connection = connected(
        cluster={"server": "http://127.0.0.1:1"},
        user={"tokenFile": "token", "token": "older"},
        monotonic=lambda: running,
    )
    path.write_text("second\n")
    assert await token(connection.credentials) == "first"
    running += 60
    assert await token(connection.credentials) == "second"
    path.unlink()
    running += 60
    assert await token(connection.credentials) == "second"


async def test_a_refused_token_file_is_read_at_once(connected: Connected, tmp_path: Path) -> None:
    """After a 401 the token file is read without waiting for the minute."""
    path = tmp_path / "token"
    path.write_text("first")
    connection = connected(cluster={"server": "http://127.0.0.1:1"}, user={"tokenFile": "token"})
    path.write_text("second")
    connection.credentials.invalidate()
    assert await token(connection.credentials) == "second"


async def test_a_refused_fixed_token_stays(connected: Connected) -> None:
    """A token that stands in the kubeconfig cannot be renewed; a 401 does not change it."""
    connection = connected(cluster={"server": "http://127.0.0.1:1"}, user={"token": "fixed"})
    connection.credentials.invalidate()
    assert await token(connection.credentials) == "fixed"
