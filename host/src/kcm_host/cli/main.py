"""The command `kcm-host`; Ctrl-C during imports ends it without a traceback."""

import gc
import os
import signal
import sys


def main(prog_name: str | None = None) -> None:
    """Run the command line of this process and end it with the exit code."""
    # Imports make no garbage, and collections take a fifth of the start; the host enables them.
    gc.disable()
    _fill_closed_streams()
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        # KeyboardInterrupt is not caught yet: with the default action there is no traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kcm_host.cli.commands import kcm_host  # noqa: PLC0415 - 50 ms in which Ctrl-C may come

    signal.signal(signal.SIGINT, interrupt)
    kcm_host.main(prog_name=prog_name)


def _fill_closed_streams() -> None:
    """
    Open standard streams that were closed at the start (`2>&-`) on /dev/null.

    Otherwise the first socket would get the number of stderr, and the output of C libraries.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - open until the end


if __name__ == "__main__":
    main()
