"""Errors of the command line: a line for each, and an exit code."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from kcm_host.cli.output import colours
from kcm_host.config.errors import ConfigError
from kcm_host.observe.logging import Form, printable, start_logging

FAILURE, BAD_CONFIG, INTERRUPTED = 1, 2, 130

log = logging.getLogger(__name__)


def fail(message: object, code: int, *, form: Form = "text") -> NoReturn:
    """Print or log one line for each problem, and exit with `code`; `form` is the log format."""
    if form == "json":
        start_logging(form="json")
    for problem in message.problems if isinstance(message, ConfigError) else (message,):
        if form == "json":
            log.error("kcm-host failed", extra={"kv": {"error": str(problem), "code": code}})
        else:
            _print("error: ", str(problem), colour="red")
    sys.exit(code)


def warn(message: str, *, form: Form = "text") -> None:
    """Print or log a warning; `form` is the log format."""
    if form == "json":
        start_logging(form="json")
        log.warning("config", extra={"kv": {"warning": message}})
    else:
        _print("warning: ", message, colour="yellow")


@contextmanager
def exit_on_error(form: Callable[[], Form]) -> Iterator[None]:
    """
    Turn exceptions of click and the system into one line and an exit code.

    `form` returns the log format, as far as it is known without the settings.
    """
    try:
        yield
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(BAD_CONFIG)
    except click.UsageError as error:
        fail(_usage(error), BAD_CONFIG, form=form())
    except click.ClickException as error:
        fail(error.format_message(), error.exit_code, form=form())
    except click.Abort:
        sys.exit(INTERRUPTED)
    except OSError as error:
        # Files and servers have errors of their own; what is left is an error of the output.
        fail(f"cannot go on: {error.strerror or error}", FAILURE, form=form())


def _print(head: str, text: str, *, colour: str) -> None:
    click.echo(click.style(head, fg=colour, bold=True) + printable(text), err=True, color=colours())


def _usage(error: click.UsageError) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    text = text[:1].lower() + text[1:]
    if text.endswith("?"):  # it names the remedy already
        return text
    path = error.ctx.command_path if error.ctx else "kcm-host"
    return f"{text}; see '{path} --help'"
