"""Bodies are split into lines as they arrive, whatever the size of the chunks."""

from collections.abc import Awaitable, Callable

import pytest
from fuzz_input import one_input
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.api.errors import ApiError
from kcm_host.client import transport as module
from kcm_host.client.transport import read_lines

MIB = 1024 * 1024


def arriving(*chunks: bytes, end: Exception | None = None) -> Callable[[], Awaitable[bytes]]:
    """Return what reads these chunks, one a call, and then the end or an error."""
    left = iter(chunks)

    async def read() -> bytes:
        chunk = next(left, b"")
        if not chunk and end is not None:
            raise end
        return chunk

    return read


@given(st.lists(st.binary(min_size=1, max_size=6) | st.sampled_from([b"\n", b"a\n\nb"])))
async def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    """The lines are those of the whole body, without what follows the last line end."""
    expected = b"".join(chunks).split(b"\n")[:-1]
    assert [line async for line in read_lines(arriving(*chunks), "watch x")] == expected


@pytest.mark.parametrize("end", [None, OSError(), TimeoutError()])
async def test_an_end_in_the_midst_drops_the_last_line(end: Exception | None) -> None:
    """However the body ends, an unfinished line is none (IQ-117)."""
    read = arriving(b"one\ntw", b"o\nthr", end=end)
    assert [line async for line in read_lines(read, "watch x")] == [b"one", b"two"]


async def test_a_long_line_costs_its_length_once() -> None:
    """A line of 60 MiB in chunks of 64 KiB takes no time that grows with its square (F-25)."""
    chunk = b"x" * 65_536
    with one_input("long lines"):
        found = [line async for line in read_lines(arriving(*[chunk] * 960, b"\n"), "watch x")]
    assert [len(line) for line in found] == [60 * MIB]


async def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of an unfinished line is bounded, and the error says what to look at (F-25)."""
    monkeypatch.setattr(module, "MAX_LINE_BYTES", MIB)
    read = arriving(b"one\n", *[b"x" * 65_536] * 1_000)
    found = read_lines(read, "watch x")
    assert await anext(found) == b"one"
    with pytest.raises(ApiError, match="watch x: a line has no end after 1 MiB, so no API server"):
        await anext(found)
    assert await read() != b""
