"""The log format of errors on the command line, before there are settings."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kcm_host.config.layers import NO_ALIASES
from kcm_host.config.overrides import CONFIG_VARIABLE, match_variables, read_variables
from kcm_host.config.tree import DEFAULT, mapping
from kcm_host.observe.logging import Form

FLAG = "--log-format"


def log_form(arguments: Sequence[str], environ: Mapping[str, str]) -> Form:
    """
    Return the log format of the last flag, or else of the variables.

    A reader of JSON lines from stderr must be able to read the last error as well. The config file
    is not read, because its path cannot be found in invalid arguments.
    """
    flagged = [one.partition("=")[2] for one in arguments if one.startswith(f"{FLAG}=")]
    flagged += [value for flag, value in pairwise(arguments) if flag == FLAG]
    if flagged:
        return "json" if flagged[-1] == "json" else "text"
    variables, _ = read_variables(environ, reserved=(CONFIG_VARIABLE,))
    node = match_variables(variables, known=mapping(DEFAULT), names=NO_ALIASES).root.at(
        ("log", "format")
    )
    return "json" if node is not None and node.value == "json" else "text"
