"""Variables and flags alone, or a file on stdin, are a whole configuration."""

import io
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import cases
from host.config.conftest import Load

from kcm_host.cli.installed import controller_names
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import load_settings
from kcm_host.config.yaml import STDIN

NO_CONTROLLER = (
    "no config file is named, and neither a variable nor a flag names a controller; name a file "
    "with -c FILE or KCM_HOST_CONFIG, or set for example KCM_HOST_CONTROLLERS='{ttl: {}}'"
)
ALONE = {
    "one mapping": {"KCM_HOST_CONTROLLERS": "{ttl: {workers: 3}}"},
    "JSON": {"KCM_HOST_CONTROLLERS": '{"ttl": {"workers": 3}}'},
    "by an alias": {"KCM_HOST_CONTROLLERS": "{ttl-controller: {workers: 3}}"},
    "YAML of several lines": {"KCM_HOST_CONTROLLERS": "ttl:\n  workers: 3\n"},
    "nested variable": {
        "KCM_HOST_CONTROLLERS": "{ttl: }",
        "KCM_HOST_CONTROLLERS__TTL__WORKERS": "3",
    },
    "nested variable wins": {
        "KCM_HOST_CONTROLLERS": "{ttl: {workers: 9}}",
        "KCM_HOST_CONTROLLERS__TTL__WORKERS": "3",
    },
}
#: Values of KCM_HOST_CONTROLLERS, and what is said of that variable.
NOTHING = cases("""
{}
-> controllers: no controller is named, so nothing would run; write for example 'controllers:
   {ttl: {}}'
[ttl]
-> controllers: must be a mapping, found a list
{ttl: !x 1}
-> tag '!x' is not supported; leave it out
{ttl: {}, ttl-controller: {}}
-> controllers: 'ttl-controller' is the controller 'ttl' of variable KCM_HOST_CONTROLLERS by
   another name; keep one of them, best 'ttl'
""")


@pytest.mark.parametrize("environ", ALONE.values(), ids=ALONE)
def test_variables_alone_configure_everything(environ: Mapping[str, str]) -> None:
    """The mapping in KCM_HOST_CONTROLLERS adds controllers, and no file is needed then (F-85)."""
    loaded = load_settings(
        names=controller_names(),
        file=None,
        environ={**environ, "KCM_HOST_LEADERELECTION__ENABLED": "false"},
    )
    assert loaded.settings.controllers["ttl"].workers == 3
    assert str(loaded.origins["controllers.ttl.workers"]).startswith(
        "variable KCM_HOST_CONTROLLERS"
    )


@pytest.mark.parametrize(
    "environ",
    [{}, {"KCM_HOST_LOG__LEVEL": "debug"}, {"KCM_HOST_CONTROLLERS__TTL__WORKERS": "3"}],
    ids=["nothing", "other settings", "only a part of a controller"],
)
def test_no_controller_is_one_line_with_a_way_out(environ: Mapping[str, str]) -> None:
    """Without a file the error names the three ways to enable a controller (F-85)."""
    with pytest.raises(ConfigError) as caught:
        load_settings(names=controller_names(), file=None, environ=environ)
    assert [str(problem) for problem in caught.value.problems] == [NO_CONTROLLER]


@pytest.mark.parametrize(("text", "problem"), NOTHING.items(), ids=NOTHING)
def test_a_variable_that_names_no_controller_is_told(text: str, problem: str) -> None:
    """With its name, fact and remedy (F-85)."""
    with pytest.raises(ConfigError) as caught:
        load_settings(names=controller_names(), file=None, environ={"KCM_HOST_CONTROLLERS": text})
    assert [str(one) for one in caught.value.problems] == [
        f"variable KCM_HOST_CONTROLLERS: {problem}"
    ]


def test_a_variable_adds_to_the_file(load: Load) -> None:
    """Controllers of the variable run beside those of the file (F-85)."""
    loaded = load(
        "controllers: {ttl: {workers: 1}}\nleaderElection: {enabled: false}",
        environ={"KCM_HOST_CONTROLLERS": "{ttl: {qps: 4}, resourcequota: {workers: 2}}"},
    )
    found = loaded.settings.controllers
    assert {name: (one.workers, one.qps) for name, one in found.items()} == {
        "ttl": (1, 4),
        "resourcequota": (2, None),
    }
    assert loaded.warnings == ()


def test_a_file_without_controllers_is_completed_by_a_variable(load: Load) -> None:
    """No error contradicts the variable (F-85)."""
    loaded = load("{}", environ={"KCM_HOST_CONTROLLERS": "{ttl: {}}"})
    assert list(loaded.settings.controllers) == ["ttl"]


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put these bytes on stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_file_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads stdin, and its values have lines (F-85)."""
    piped(monkeypatch, b"controllers:\n  ttl: {workers: 3}\n")
    loaded = load_settings(names=controller_names(), file=STDIN, environ={})
    assert str(loaded.origins["controllers.ttl.workers"]) == "stdin:2"


def test_mistakes_on_stdin_are_placed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a mistake is the line of stdin (F-85)."""
    piped(monkeypatch, b"controllers:\n  ttl: {wrokers: 3}\n")
    with pytest.raises(ConfigError, match=r"^stdin:2:9: controllers\.ttl.wrokers: unknown key"):
        load_settings(names=controller_names(), file=STDIN, environ={})


def test_a_closed_stdin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stdin there is one line about it (F-85)."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match=r"^stdin: the file cannot be read: it is closed"):
        load_settings(names=controller_names(), file=STDIN, environ={})


def test_a_file_called_dash_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `-` is stdin, a path to a file of that name is not (F-85)."""
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("controllers: {ttl: {}}")
    assert (
        "ttl"
        in load_settings(
            names=controller_names(), file=Path("./-"), environ={}
        ).settings.controllers
    )


@pytest.mark.parametrize("form", ["json", "text", None])
def test_an_error_knows_the_log_format(load: Load, form: str | None) -> None:
    """Errors of a file that sets JSON logs are JSON lines (F-88)."""
    said = f"log: {{format: {form}}}\n" if form else ""
    with pytest.raises(ConfigError) as caught:
        load(f"{said}controllers: {{ttl: 3}}")
    assert caught.value.log_form == form
