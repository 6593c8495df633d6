"""`python -m kcm_host`, the same as the command `kcm-host`."""

from kcm_host.cli.main import main

main(prog_name="kcm-host")
