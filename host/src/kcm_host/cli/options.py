"""Options that several verbs share, and what they come to."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec

import click

from kcm_host.config.load import load_settings
from kcm_host.config.loaded import Loaded
from kcm_host.config.problems import ConfigError

P = ParamSpec("P")

BAD_CONFIG = 2
FLAGS = {"kubeconfig": "kubeconfig", "log_level": "log.level", "log_format": "log.format"}
CONFIG_VARIABLE = "KCM_HOST_CONFIG"

_OPTIONS = (
    click.option(
        "-c",
        "--config",
        "config_file",
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        required=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The config file, YAML or JSON.",
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="How to reach the API server; overrides the config file.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="The least level that is logged.",
    ),
    click.option(
        "--log-format", type=click.Choice(["text", "json"]), help="Lines for people, or JSON."
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help="Override one setting, such as controllers.ttl.workers=3. May be repeated.",
    ),
)

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for scripts.",
)


def with_settings(command: Callable[Concatenate[Loaded, P], None]) -> Callable[..., None]:
    """Add the options that say which configuration, and hand the command what they come to."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        command(_load(kwargs), *args, **kwargs)

    decorated: Callable[..., None] = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def fail(message: object, code: int) -> NoReturn:
    """Tell what is wrong, line by line, and end with `code`."""
    for line in str(message).splitlines():
        click.secho("error: ", fg="red", bold=True, nl=False, err=True)
        click.echo(line, err=True)
    sys.exit(code)


def _load(given: dict[str, Any]) -> Loaded:
    file = given.pop("config_file")
    overrides = given.pop("overrides")
    flags = {path: given.pop(name) for name, path in FLAGS.items()}
    try:
        return load_settings(
            file=file,
            environ=os.environ,
            overrides=overrides,
            flags={path: value for path, value in flags.items() if value is not None},
            reserved=(CONFIG_VARIABLE,),
        )
    except ConfigError as error:
        fail(error, BAD_CONFIG)
