"""Turns into a given program that dies with the process that asked for it.

Run as a script: `launch.py PARENT_PID PROGRAM ARGUMENTS...`. The server keeps the process id of
this script, so its caller can signal and measure it directly.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Become the program; never returns."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        raise SystemExit("the parent ended before the program began")
    # Python ignores these two, and what is ignored stays ignored across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(program[0], program)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
