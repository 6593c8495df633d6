"""Runs a program that nobody sees: without a terminal, for a bounded time, with bounded output."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import IO

#: How long the end of a killed program is waited for.
END_LIMIT = timedelta(seconds=1)
#: How often is looked whether a program that has closed its output has ended.
LOOK_AGAIN = timedelta(milliseconds=10)
#: Of what a program writes to stderr the last so many bytes are kept.
LONGEST_COMPLAINT = 64 << 10


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program that ended by itself wrote, and its exit code."""

    code: int
    output: bytes
    complaint: bytes


class TooMuchOutput(Exception):
    """The program wrote more to stdout than it may, and was killed."""


async def run(
    command: Sequence[str], *, environ: Mapping[str, str], limit: timedelta, most: int
) -> Ended:
    """
    Run a program to its end.

    Its stdin is empty, and it leads a session of its own, so that it and its children are ended
    together: after `limit` (raises TimeoutError), when it writes more than `most` bytes to stdout
    (raises TooMuchOutput), and when the caller is cancelled. Raises OSError when it cannot be
    started.
    """
    # Not asyncio's own: cancelled while it starts a program, that waits for ever.
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - returns in milliseconds; the user names the program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    ended = False
    with process.stdout, process.stderr:
        try:
            async with asyncio.timeout(limit.total_seconds()):
                output, complaint = await asyncio.gather(
                    _head(process.stdout, most, process.pid), _tail(process.stderr)
                )
                await _end_of(process)
            ended = True
        finally:
            # Also when only children are left, which hold the pipes open.
            if not ended:
                _kill(process.pid)
                with suppress(TimeoutError):
                    await asyncio.wait_for(_end_of(process), END_LIMIT.total_seconds())
    if len(output) > most:
        raise TooMuchOutput
    return Ended(process.returncode, output, complaint)


async def _end_of(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:  # noqa: ASYNC110 - no event that every system has
        await asyncio.sleep(LOOK_AGAIN.total_seconds())


async def _head(pipe: IO[bytes], most: int, group: int) -> bytes:
    """Return all that comes; when it is more than `most` bytes the group is killed."""
    parts, size = [], 0
    while size <= most and (part := await _part(pipe)):
        parts.append(part)
        size += len(part)
    if size > most:
        _kill(group)
    return b"".join(parts)


async def _tail(pipe: IO[bytes]) -> bytes:
    """Return the end of what comes; all of it is read, or the program would stop in the middle."""
    tail = b""
    while part := await _part(pipe):
        tail = (tail + part)[-LONGEST_COMPLAINT:]
    return tail


async def _part(pipe: IO[bytes]) -> bytes:
    """Return what can be read next; empty at the end."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(pipe.fileno(), _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(pipe.fileno())
    return os.read(pipe.fileno(), 64 << 10)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
