"""Options of several commands, and the settings that follow from them."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click

from kcm_host.cli.installed import controller_names
from kcm_host.cli.output import BAD_CONFIG, fail
from kcm_host.config.errors import ConfigError
from kcm_host.config.layers import NO_ALIASES
from kcm_host.config.load import Loaded, load_settings
from kcm_host.config.overrides import CONFIG_VARIABLE, match_variables, read_variables
from kcm_host.config.tree import DEFAULT, mapping
from kcm_host.config.yaml import STDIN
from kcm_host.observe.logging import Form

P = ParamSpec("P")

FLAGS = {"kubeconfig": "kubeconfig", "log_level": "log.level", "log_format": "log.format"}
#: The config loader reports unreadable files itself.
_FILE = click.Path(readable=False)

_OPTIONS = (
    click.option(
        "-c",
        "--config",
        "config_file",
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        type=_FILE,
        metavar="FILE",
        help="The config file, YAML or JSON; - is stdin. Left out: variables and --set say it all.",
    ),
    click.option(
        "--kubeconfig",
        type=_FILE,
        metavar="FILE",
        help="How to reach the API server. Left out: what the config file says, then $KUBECONFIG, "
        "the pod's service account, ~/.kube/config.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="The least level that is logged; debug also shows the stacks of errors.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="How log lines look on stderr: for people, or for programs.",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help="Override one setting of the file, such as controllers.ttl.workers=3. "
        "May be repeated.",
    ),
)

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs.",
)


def with_settings(command: Callable[Concatenate[Loaded, P], None]) -> Callable[..., None]:
    """Add the options of the configuration, and call the command with the loaded settings."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        command(_load(kwargs), *args, **kwargs)

    decorated: Callable[..., None] = wrapped
    # In reverse, because decorators add to the front of `--help`.
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _load(given: dict[str, Any]) -> Loaded:
    file = given.pop("config_file")
    overrides = given.pop("overrides")
    flags = {path: given.pop(name) for name, path in FLAGS.items()}
    try:
        return load_settings(
            file=file if file is None or file == STDIN else Path(file),
            environ=os.environ,
            overrides=overrides,
            flags={path: value for path, value in flags.items() if value is not None},
            reserved=(CONFIG_VARIABLE,),
            names=controller_names(),
        )
    except ConfigError as error:
        fail(error, BAD_CONFIG, form="json" if error.log_form == "json" else "text")


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
