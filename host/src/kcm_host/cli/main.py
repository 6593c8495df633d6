"""The command `kcm-host`, quiet about Ctrl-C from its first moment on."""

import gc
import signal


def main(prog_name: str | None = None) -> None:
    """Run the command line of this process and end it with the exit code."""
    # What the verbs import is no garbage: the collections in between were a fifth of every start.
    # The host switches them on again when its first objects are in.
    gc.disable()
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        # Nobody is there yet to catch KeyboardInterrupt, so the system ends the process: silently.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kcm_host.cli.verbs import kcm_host  # noqa: PLC0415 - 50 ms in which Ctrl-C may come

    signal.signal(signal.SIGINT, interrupt)
    kcm_host.main(prog_name=prog_name)


if __name__ == "__main__":
    main()
