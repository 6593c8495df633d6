"""What a reflector does next, whatever its server answers; run from a script in memory."""

import logging
import random
from typing import Any

import msgspec
import pytest
from host.informer.reflector.scripted import (
    LASTING,
    POD,
    PODS,
    Answer,
    Stream,
    added,
    bookmark,
    event,
    failure,
    listed,
    page,
    pod,
    run_script,
)
from logged import pairs_of

from kcm_host.api.errors import ApiError, Unreachable, Unreadable
from kcm_host.client.rest import JSON, METADATA_LIST, METADATA_ONLY
from kcm_host.informer.list_watch import ListWatchOptions

pytestmark = pytest.mark.virtual_time

GONE = ApiError("gone", status=410, reason="Expired")
TOO_LARGE = ApiError(
    "not yet", status=504, reason="Timeout", causes=frozenset({"ResourceVersionTooLarge"})
)
BUSY = ApiError("busy", status=429)
INVALID = ApiError("sendInitialEvents is forbidden", status=422, reason="Invalid")
FORBIDDEN = ApiError("forbidden", status=403, reason="Forbidden")
REFUSED = Unreachable("refused", refused=True)
CUT = Unreachable("cut")
LASTED = Stream((*listed(), LASTING))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the waits be as they are in earnest, but for what is random in them."""
    monkeypatch.setattr(random, "random", lambda: 0.0)


def warnings(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """Return what was logged at a level, each with what it is about."""
    return [
        " ".join(
            [each.message, *(text for name, text in pairs_of(each).items() if name != "resource")]
        )
        for each in caplog.records
        if each.levelno == level and each.name == "kcm_host.informer.reflector"
    ]


async def test_a_streaming_list_goes_on_as_a_watch() -> None:
    """One request brings all objects and then every change (IQ-10 to IQ-12)."""
    went = event("DELETED", pod("a", "7"))
    run = await run_script(Stream((*listed("a", "b"), LASTING, added("c", "6"), went)))
    assert run.sink.calls == [
        *("begin", "gather ADDED a", "gather ADDED b", "done"),
        *("ADDED c", "DELETED a"),
    ]
    assert run.requests_sent == ["stream", "watch 7"]
    assert (run.reflector.lists, run.reflector.resource_version) == (1, "7")
    assert (run.reflector.phase, run.reflector.error) == ("watching", "")


async def test_what_is_asked() -> None:
    """The parameters of a streaming list and of a watch (IQ-10, IQ-24)."""
    options = ListWatchOptions(POD, "team", "a=b", "c=d")
    run = await run_script(LASTED, options=options)
    initial, watch = run.client.requests
    limit = int(initial.query.pop("timeoutSeconds"))
    assert 300 <= limit < 600
    del watch.query["timeoutSeconds"]
    chosen = {"labelSelector": "a=b", "fieldSelector": "c=d", "watch": "true"}
    common = {**chosen, "allowWatchBookmarks": "true"}
    streaming = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert initial.query == {**common, **streaming}
    assert watch.query == {**common, "resourceVersion": "5"}
    for each in (initial, watch):
        assert (each.path, each.user_agent) == ("/api/v1/namespaces/team/pods", "me")
        assert each.accept == JSON


async def test_metadata_alone_is_asked_for() -> None:
    """Watches, streaming lists and pages then have the form without the rest of an object."""
    options = ListWatchOptions(POD, metadata_only=True)
    partial = event("ADDED", pod("a", kind="PartialObjectMetadata"))
    stream = Stream((partial, bookmark("5", ends_list=True), LASTING))
    run = await run_script(stream, GONE, INVALID, page(), options=options)
    assert [each.accept for each in run.client.requests] == [
        *(METADATA_ONLY, METADATA_ONLY, METADATA_ONLY, METADATA_LIST, METADATA_ONLY)
    ]
    assert "gather ADDED a" in run.sink.calls


async def test_the_loop_is_heard_while_a_set_is_put_in_place() -> None:
    """A large set comes in slices; it counts as complete after the last one."""
    run = await run_script(LASTED, prepare=lambda sink: setattr(sink, "pauses", 3))
    assert run.sink.calls == ["begin", "done"]
    assert run.reflector.lists == 1


async def test_a_server_without_streaming_lists_is_asked_for_pages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Then a watch begins at the list's version; a round tries streaming first (IQ-13, IQ-T2)."""
    caplog.set_level(logging.DEBUG)
    pages = [page(pod("a"), version="5", token="more"), page(pod("b"), version="9")]
    again: list[Answer] = [INVALID, page(pod("c"), version="12")]
    run = await run_script(INVALID, *pages, FORBIDDEN, *again)
    assert run.requests_sent == [
        *("stream", "list", "list", "watch 5"),
        *("stream 5", "list", "watch 12"),
    ]
    assert run.client.requests[1].query == {"limit": "500"}
    assert run.sink.calls == ["begin", "item a", "item b", "done", "begin", "item c", "done"]
    assert (run.reflector.lists, run.reflector.phase) == (2, "watching")
    told = warnings(caplog, logging.DEBUG)[0]
    assert told == f"streaming list unavailable, listing pages {INVALID}"


@pytest.mark.parametrize("unavailable", [GONE, TOO_LARGE])
async def test_a_version_that_cannot_be_had_is_dropped(unavailable: ApiError) -> None:
    """The list is asked for again at once, without a version, until one succeeds (IQ-14, 21)."""
    run = await run_script(LASTED, FORBIDDEN, unavailable, REFUSED, LASTED, FORBIDDEN)
    assert run.requests_sent == [
        *("stream", "watch 5", "stream 5", "stream", "stream"),
        *("watch 5", "stream 5"),
    ]
    assert run.waits[2] == 0.0, "no wait before the list without a version"


@pytest.mark.parametrize("unavailable", [GONE, TOO_LARGE])
async def test_a_list_that_expired_without_a_version_ends_the_round(unavailable: ApiError) -> None:
    """There is nothing left to drop, so the next round begins after a wait."""
    run = await run_script(unavailable, LASTED)
    assert run.requests_sent == ["stream", "stream", "watch 5"]
    assert run.waits[0] == 0.8


@pytest.mark.parametrize("error", [CUT, Unreadable("no JSON"), FORBIDDEN])
async def test_other_errors_of_a_streaming_list_lead_to_pages(error: Exception) -> None:
    """Whatever keeps a server from streaming, pages may work (IQ-13)."""
    run = await run_script(error, page(version="3"))
    assert (run.requests_sent, run.waits) == (["stream", "list", "watch 3"], [0.0, 0.0])


@pytest.mark.parametrize("error", [REFUSED, BUSY])
async def test_a_server_that_is_away_or_busy_is_asked_again(error: Exception) -> None:
    """No pages are asked for, and the waits grow (IQ-2, IQ-13)."""
    run = await run_script(error, error, error, LASTED)
    assert run.requests_sent == ["stream"] * 4 + ["watch 5"]
    assert run.waits[:3] == [0.8, 1.6, 3.2]


async def test_a_server_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is told when it begins, when it changes, and when it is over (IQ-27)."""
    caplog.set_level(logging.DEBUG)
    run = await run_script(
        REFUSED, REFUSED, Unreachable("away", refused=True), LASTED, silent_seconds=2
    )
    assert warnings(caplog) == ["watch failed, retrying refused", "watch failed, retrying away"]
    assert warnings(caplog, logging.INFO) == ["watch recovered"]
    assert (run.reflector.phase, run.reflector.error) == ("watching", "")


async def test_a_busy_server_is_no_failure_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """A 429 within five seconds is normal where a kind has just been defined."""
    caplog.set_level(logging.DEBUG)
    run = await run_script(BUSY, BUSY)
    assert run.reflector.phase == "listing"
    assert warnings(caplog) == []
    assert warnings(caplog, logging.DEBUG) == ["server busy, retrying busy"] * 2
    run = await run_script(BUSY, BUSY, BUSY, BUSY)
    assert (run.reflector.phase, run.reflector.error) == ("failed", "busy")


async def test_a_busy_server_has_its_time_anew_after_it_worked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The five seconds begin with the first 429 after the stream last worked."""
    run = await run_script(BUSY, Stream((*listed(), 9.0)), BUSY, BUSY)
    assert run.requests_sent == ["stream", "stream", "watch 5", "watch 5", "watch 5"]
    assert warnings(caplog) == []


async def test_a_watch_that_ends_is_opened_again() -> None:
    """A normal end is followed by the next watch at once, from the last version (IQ-24, IQ-T5)."""
    run = await run_script(
        LASTED, Stream((LASTING, added("a", "6"))), Stream((bookmark("8"), LASTING))
    )
    assert run.requests_sent == ["stream", "watch 5", "watch 6", "watch 8"]
    assert run.waits == [LASTING] * 3
    assert run.reflector.lists == 1


@pytest.mark.parametrize("error", [REFUSED, BUSY])
async def test_a_watch_waits_for_a_server_without_a_list(error: Exception) -> None:
    """The version is still good when the server is there again (IQ-24, IQ-27, IQ-T7)."""
    run = await run_script(LASTED, error, error, Stream((added("a", "6"), LASTING)))
    assert run.requests_sent == ["stream", "watch 5", "watch 5", "watch 5", "watch 6"]
    assert run.waits[1:3] == [0.8, 1.6]
    assert run.reflector.phase == "watching"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(Stream((LASTING,), error=CUT), id="cut"),
        pytest.param(CUT, id="not opened"),
        pytest.param(Stream((LASTING, failure(500))), id="told"),
        pytest.param(Stream((LASTING, b"{}")), id="without a type"),
        pytest.param(Stream((LASTING, b'{"type":"ADDED"}')), id="without an object"),
        pytest.param(Stream((LASTING, b"not json")), id="no JSON"),
        pytest.param(Stream((LASTING, b"{")), id="incomplete JSON"),
        pytest.param(Stream(), id="ended at once without events"),
    ],
)
async def test_a_watch_that_fails_leads_to_a_list_after_a_wait(end: Answer) -> None:
    """Objects are asked for again, from the last version on (IQ-26 to IQ-29)."""
    run = await run_script(LASTED, end)
    assert run.requests_sent == ["stream", "watch 5", "stream 5"]
    assert run.waits[1] in (0.8, LASTING + 0.8)
    assert run.reflector.phase == "failed"


async def test_a_stream_that_lists_and_is_then_busy_watches_on() -> None:
    """The watch that a streaming list has become is waited for like every other (IQ-27)."""
    busy = Stream((LASTING, failure(429)))
    run = await run_script(Stream((*listed(), *busy.lines)), busy)
    assert run.requests_sent == ["stream", "watch 5", "watch 5"]
    assert run.waits == [LASTING + 0.8, LASTING + 1.6]


async def test_an_expired_version_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    """A new list follows quietly (IQ-26)."""
    caplog.set_level(logging.DEBUG)
    run = await run_script(LASTED, Stream((LASTING, failure(410, "Expired"))), LASTED)
    assert run.requests_sent == ["stream", "watch 5", "stream 5", "watch 5"]
    assert (run.reflector.phase, run.reflector.error) == ("watching", "")
    assert warnings(caplog) == []
    text = "watch /api/v1/pods: 410 Expired: told by a script"
    assert warnings(caplog, logging.DEBUG) == [f"relist needed {text}"]


async def test_the_words_for_failures(caplog: pytest.LogCaptureFixture) -> None:
    """Each names the request, and a refusal what to do about it (IQ-29)."""
    for told in (failure(500, "Internal", "boom"), b"{}"):
        await run_script(LASTED, Stream((told, LASTING)))
    await run_script(LASTED, Stream())
    await run_script(LASTED, FORBIDDEN)
    again, path = "watch failed, retrying", "watch /api/v1/pods"
    rights = "grant list and watch on"
    assert warnings(caplog) == [
        f"{again} {path}: 500 Internal: boom",
        f"{again} {path}: undecodable event: Object missing required field `type`",
        f"{again} {path}: ended at once without events",
        f"{again} forbidden; {rights} '{PODS}' to the host's identity",
    ]


@pytest.mark.parametrize("code", [429, 500])
async def test_an_error_within_a_streaming_list(code: int) -> None:
    """Patience is waited for, anything else leads to pages; half a list is forgotten (IQ-12)."""
    rest = [LASTED] if code == 429 else [page(version="3")]
    run = await run_script(Stream((added("a"), failure(code))), *rest)
    if code == 429:
        assert (run.requests_sent[:2], run.waits[0]) == (["stream", "stream"], 0.8)
    else:
        assert run.requests_sent == ["stream", "list", "watch 3"]
    assert run.sink.calls == ["begin", "gather ADDED a", "begin", "done"]


async def test_a_streaming_list_that_is_over_at_once_and_empty_leads_to_pages() -> None:
    """A server that knows no streaming lists may answer so."""
    run = await run_script(Stream(), page(version="3"))
    assert (run.requests_sent, run.waits) == (["stream", "list", "watch 3"], [0.0, 0.0])


@pytest.mark.parametrize("told", [(added("a"),), (LASTING,)], ids=["soon", "late and empty"])
async def test_a_streaming_list_that_ends_before_its_bookmark_is_begun_again(
    told: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """At once after the first time; further ones in a row are told and waited for (IQ-14, 28)."""
    run = await run_script(*[Stream(told)] * 3)
    assert run.requests_sent == ["stream"] * 4
    lasted = told[0] if isinstance(told[0], float) else 0.0
    assert run.waits == [lasted, lasted + 0.8, lasted + 1.6]
    assert "done" not in run.sink.calls
    text = "watch /api/v1/pods: ended before the list was complete, several times in succession"
    remedy = "check what closes connections to the API server"
    assert warnings(caplog) == [f"watch failed, retrying {text}; {remedy}"]


async def test_watches_that_end_within_a_second_again_and_again_are_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stream that just opened does not count as working until one has lasted (IQ-28, F-26)."""
    short = Stream((added("a", "6"),))
    run = await run_script(LASTED, short, short, short)
    assert run.requests_sent == ["stream", "watch 5", "watch 6", "watch 6", "watch 6"]
    assert run.waits[1:] == [0.0, 0.8, 1.6]
    assert run.reflector.phase == "failed"
    text = "watch /api/v1/pods: ended within a second, several times in succession"
    assert warnings(caplog)[0].startswith(f"watch failed, retrying {text}; check")
    assert len(warnings(caplog)) == 1


async def test_a_stream_that_lasts_makes_up_for_those_that_did_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next early end is the first one again."""
    short = Stream((added("a", "6"),))
    lasting = Stream((added("a", "6"), LASTING))
    run = await run_script(LASTED, short, short, lasting, short)
    assert run.waits[1:] == [0.0, 0.8, LASTING, 0.0]
    assert run.reflector.phase == "watching"


async def test_a_list_that_ends_early_as_a_watch_counts_too() -> None:
    """What was listed stays; the watch begins at once, and waits when it ends early again."""
    run = await run_script(Stream(listed("a")), Stream((added("b", "6"),)))
    assert run.requests_sent == ["stream", "watch 5", "watch 6"]
    assert run.waits == [0.0, 0.8]


async def test_foreign_and_unknown_events_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    """They are told; an unknown type of our kind moves the version, others do not (IQ-25)."""
    odd = (
        event("ADDED", pod("x", "91", kind="Node")),
        event("ADDED", pod("", "92")),
        event("ADDED", {"kind": "Pod"}),
        event("RENAMED", pod("y", "93")),
    )
    run = await run_script(Stream((*odd, *listed("a"), LASTING, *odd[:3], added("b", ""))))
    assert run.requests_sent == ["stream", "watch 5"]
    assert run.sink.calls == ["begin", "gather ADDED a", "done", "ADDED b"]
    assert warnings(caplog) == [
        "object of another kind skipped Node",
        *["object of another kind skipped Pod"] * 2,
        "watch event of unknown type skipped RENAMED",
        "object of another kind skipped Node",
        *["object of another kind skipped Pod"] * 2,
    ]
    run = await run_script(Stream((*listed(), LASTING, odd[3])))
    assert (run.requests_sent[-1], run.sink.calls) == ("watch 93", ["begin", "done"])


async def test_bookmarks_before_the_last_one_end_no_list() -> None:
    """Only the one with the annotation does; it may lack a version (IQ-12)."""
    other = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "3"}})
    end = bookmark("", ends_list=True)
    run = await run_script(LASTED, FORBIDDEN, Stream((other, added("a"), end, LASTING)))
    assert run.sink.calls[-3:] == ["begin", "gather ADDED a", "done"]
    assert run.requests_sent[-1] == "watch 5"


async def test_a_long_wait_for_the_first_objects_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Every ten seconds, and no longer once they are there (IQ-15)."""
    slow = Stream((25.0, *listed("a"), 60.0))
    await run_script(slow)
    assert warnings(caplog) == ["initial list still incomplete"] * 2


async def test_a_failure_of_the_sink_ends_no_stream(caplog: pytest.LogCaptureFixture) -> None:
    """It is told, and all objects come again after a wait."""
    caplog.set_level(logging.DEBUG)
    for error in (RuntimeError("bug"), msgspec.ValidationError("bug")):
        caplog.clear()
        run = await run_script(
            Stream((*listed(), added("a", "6"))),
            LASTED,
            prepare=lambda sink, error=error: setattr(sink, "trouble", error),  # type: ignore[misc]
        )
        assert run.requests_sent == ["stream", "stream 6", "watch 5"]
        assert run.waits[0] == 0.8
        assert warnings(caplog) == ["watch failed, retrying bug"]
        told = [each for each in caplog.records if each.exc_info]
        assert bool(told) == isinstance(error, RuntimeError), "only a bug of ours has a traceback"


async def test_waits_begin_anew_after_two_minutes() -> None:
    """The growth of the waits is forgotten (IQ-3)."""
    run = await run_script(LASTED, CUT, CUT, page(), Stream((130.0, failure(500))))
    assert run.requests_sent == ["stream", "watch 5", "stream 5", "list", "watch 5", "stream 5"]
    assert run.waits[-1] == 130.8
