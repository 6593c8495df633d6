"""The command `kcm-host`, quiet about Ctrl-C from its first moment on."""

import gc
import os
import signal
import sys


def main(prog_name: str | None = None) -> None:
    """Run the command line of this process and end it with the exit code."""
    # What the verbs import is no garbage: the collections in between were a fifth of every start.
    # The host switches them on again when its first objects are in.
    gc.disable()
    _fill_closed_streams()
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        # Nobody is there yet to catch KeyboardInterrupt, so the system ends the process: silently.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kcm_host.cli.verbs import kcm_host  # noqa: PLC0415 - 50 ms in which Ctrl-C may come

    signal.signal(signal.SIGINT, interrupt)
    kcm_host.main(prog_name=prog_name)


def _fill_closed_streams() -> None:
    """
    Open what was closed at the start (`2>&-`) on nothing.

    Otherwise the first socket would get the number of stderr, and what C libraries write there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - open until the end


if __name__ == "__main__":
    main()
