"""Bodies are split into lines as they arrive, whatever the size of the chunks."""

import asyncio

import pytest
from fuzz_input import one_input
from generated_watch import Lines
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.client.http import lines as module
from kcm_host.client.http.lines import LineStream, LineTooLong

MIB = 1024 * 1024
CHUNKS = st.lists(st.binary(min_size=1, max_size=6) | st.sampled_from([b"\n", b"a\n\nb"]))


class Source:
    """The connection of a stream: counts what the stream asks of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")

    def abort(self) -> None:
        self.asked.append("abort")


async def lines_of(*chunks: bytes) -> list[bytes]:
    """Return the lines of a body that arrives in these chunks, each as a part of its own."""
    stream, found = LineStream(Source()), Lines()
    reading = asyncio.create_task(stream.for_each(found))
    await asyncio.sleep(0)
    for chunk in chunks:
        stream.feed([chunk])
    stream.end()
    assert await reading == len(found)
    return found


@given(CHUNKS)
async def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    """The lines are those of the whole body, without what follows the last line end (IQ-117)."""
    assert await lines_of(*chunks) == b"".join(chunks).split(b"\n")[:-1]


@given(CHUNKS, st.integers(min_value=0, max_value=5))
async def test_a_handler_that_stops_loses_nothing(chunks: list[bytes], wanted: int) -> None:
    """Lines that arrive before somebody reads, or after a handler stopped, are for the next one."""
    source = Source()
    stream, found = LineStream(source), list[bytes]()

    def handle(line: bytes) -> bool:
        found.append(line)
        return len(found) == wanted

    for chunk in chunks[:2]:
        stream.feed([chunk])
    first = asyncio.create_task(stream.for_each(handle))
    await asyncio.sleep(0)
    for chunk in chunks[2:]:
        stream.feed([chunk])
    stream.end()
    await first
    await stream.for_each(handle)
    assert found == b"".join(chunks).split(b"\n")[:-1]
    # Who is paused is resumed only when somebody reads again.
    assert source.asked.count("resume") <= source.asked.count("pause") <= 2


async def test_what_the_handler_raises_is_raised_to_its_caller() -> None:
    """A mistake in the handler ends the reading, not the event loop's transport."""
    stream = LineStream(Source())

    def refuse(line: bytes) -> bool:
        raise ValueError(line)

    reading = asyncio.create_task(stream.for_each(refuse))
    await asyncio.sleep(0)
    stream.feed([b"one\ntwo\n"])
    with pytest.raises(ValueError, match="one"):
        await reading
    left = Lines()
    stream.end()
    await stream.for_each(left)
    assert left == [b"two"]


async def test_a_long_line_costs_its_length_once() -> None:
    """A line of 60 MiB in chunks of 64 KiB takes no time that grows with its square (F-25)."""
    with one_input("long lines"):
        found = await lines_of(*[b"x" * 65_536] * 960, b"\n")
    assert [len(line) for line in found] == [60 * MIB]


async def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of an unfinished line is bounded (F-25)."""
    monkeypatch.setattr(module, "MAX_LINE_BYTES", MIB)
    with pytest.raises(LineTooLong):
        await lines_of(b"one\n", *[b"x" * 65_536] * 1_000)
