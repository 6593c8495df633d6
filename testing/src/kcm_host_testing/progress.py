"""Tells a waiting person what goes on, on a terminal and in a log."""

import sys
import time
from typing import TextIO

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0


class Progress:
    """Lines for what is done, and a sign of life in between: rewritten in place on a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._pause = TERMINAL_SECONDS if self._terminal else LOG_SECONDS
        self._last = time.monotonic()

    def say(self, line: str) -> None:
        """Show a line that stays."""
        self._write(f"{line}\n")

    def alive(self, line: str) -> None:
        """Show that something moves; call as often as you like, it is not too often shown."""
        if time.monotonic() - self._last >= self._pause:
            self._write(line if self._terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        clear = "\r\x1b[K" if self._terminal else ""
        self._stream.write(clear + text)
        self._stream.flush()
        self._last = time.monotonic()
