"""Wrong settings are reported all at once, each with line, path, fact and remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kcm_host.config.load import load_settings
from kcm_host.config.problems import ConfigError

RUNS = "controllers: {ttl: {}}\n"

WRONG = {
    "unknown key": ("htp: 1", "2:1: htp: unknown key 'htp'; did you mean 'http'?"),
    "unknown key, other case": (
        "kubeConfig: x",
        "2:1: kubeConfig: unknown key 'kubeConfig'; did you mean 'kubeconfig'?",
    ),
    "python's spelling of a key": (
        "start_timeout: 5s",
        "2:1: start_timeout: unknown key 'start_timeout'; did you mean 'startTimeout'?",
    ),
    "unknown key inside": (
        "telemetry: {traces: {sampelRatio: 1}}",
        (
            "2:22: telemetry.traces.sampelRatio: unknown key 'sampelRatio'; "
            "did you mean 'sampleRatio'?"
        ),
    ),
    "unknown key like nothing": (
        "log: {xyz: 1}",
        "2:7: log.xyz: unknown key 'xyz'; known here: format, level",
    ),
    "key of pydantic-settings": (
        "_env_file: x",
        "2:1: _env_file: unknown key '_env_file'; known here: ",
    ),
    "choice": (
        "log: {level: inof}",
        (
            "2:14: log.level: must be 'debug', 'info', 'warning' or 'error', found 'inof'; "
            "did you mean 'info'?"
        ),
    ),
    "section is a value": ("log: debug", "2:6: log: must be a mapping, found 'debug'"),
    "text is a number": (
        "kubeconfig: 12",
        "2:13: kubeconfig: must be text, found 12; put it in quotes",
    ),
    "empty path": ("kubeconfig: ''", "2:13: kubeconfig: an empty path names no file; write a path"),
    "number without unit": (
        "startTimeout: 10",
        "2:15: startTimeout: duration '10' has no unit; write for example '10s' or '10m'",
    ),
    "negative duration": (
        "shutdownTimeout: -5s",
        "2:18: shutdownTimeout: must be at least '0s', found '-5s'",
    ),
    "base 60 is no number": (
        "startTimeout: 1:30",
        "2:15: startTimeout: '1:30' is not a duration; write numbers",
    ),
    "above the range": (
        "telemetry: {traces: {sampleRatio: 1.5}}",
        "2:35: telemetry.traces.sampleRatio: must be at most 1.0, found 1.5",
    ),
    "yes is no truth": (
        "leaderElection: {enabled: no}",
        "2:27: leaderElection.enabled: must be true or false, found 'no'",
    ),
    "no port": ("http: {bind: localhost}", "2:14: http.bind: 'localhost' has no port; write for"),
    "no host": (
        "http: {bind: ':80'}",
        "2:14: http.bind: ':80' names no host; write '0.0.0.0:80' if every interface is meant",
    ),
    "port too high": ("http: {bind: 'a:65536'}", "2:14: http.bind: '65536' is no port; write"),
    "port is a name": ("http: {bind: 'a:http'}", "2:14: http.bind: 'http' is no port; write"),
    "IPv6 without brackets": ("http: {bind: '::1:80'}", "2:14: http.bind: '::1:80' is no address"),
    "brackets without IPv6": ("http: {bind: '[a]:80'}", "2:14: http.bind: '[a]:80' is no address"),
    "URL in place of an address": (
        "http: {bind: 'http://a:80'}",
        "2:14: http.bind: 'http://a:80' is no address",
    ),
    "no URL": (
        "telemetry: {traces: {endpoint: 'localhost:4318'}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write",
    ),
    "URL with a bad port": (
        "telemetry: {traces: {endpoint: 'http://a:b'}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write",
    ),
    "leader election": (
        "leaderElection:\n  enabled: true",
        (
            "3:12: leaderElection.enabled: leader election is not built yet; "
            "run one replica and set 'leaderElection.enabled: false'"
        ),
    ),
    "key twice": ("log: {}\nlog: {}", "3:1: key 'log' stands here again, first at line 2; remove"),
}

WRONG_CONTROLLERS = {
    "no key": ("http: {}", "1:1: controllers: no controller is named, so nothing would run; write"),
    "empty": ("controllers: {}", "1:14: controllers: no controller is named, so nothing"),
    "null": ("controllers:", "1:1: controllers: no controller is named, so nothing"),
    "list": ("controllers: [ttl]", "1:14: controllers: must be a mapping, found a list"),
    "number": ("controllers: {x: 5}", "1:18: controllers.x: must be a mapping, found 5"),
    "no workers": (
        "controllers: {x: {workers: 0}}",
        "1:28: controllers.x.workers: must be at least 1, found 0",
    ),
    "quoted number": (
        "controllers: {x: {workers: '3'}}",
        "1:28: controllers.x.workers: must be a whole number, found '3'; leave the quotes out",
    ),
    "true is no number": (
        "controllers: {x: {qps: true}}",
        "1:24: controllers.x.qps: must be a number, found true",
    ),
    "infinite": (
        "controllers: {x: {qps: .inf}}",
        "1:24: controllers.x.qps: must be a finite number, found inf",
    ),
    "no requests": (
        "controllers: {x: {qps: 0}}",
        "1:24: controllers.x.qps: must be more than 0.0, found 0",
    ),
    "burst alone": (
        "controllers: {x: {burst: 3}}",
        (
            "1:26: controllers.x.burst: 'burst' does nothing without 'qps'; "
            "set 'qps' too, or remove 'burst'"
        ),
    ),
    "settings are a list": (
        "controllers: {x: {settings: []}}",
        "1:29: controllers.x.settings: must be a mapping, found a list",
    ),
    "name with a dot": (
        "controllers: {a.b: 5}",
        "1:20: controllers.a\\.b: must be a mapping, found 5",
    ),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_value_names_line_path_and_remedy(
    problems: Callable[..., list[str]], text: str, problem: str
) -> None:
    """A wrong key or value gives one line with place, path, fact and remedy (design 7)."""
    [found] = problems(RUNS + text)
    assert found.startswith(f"config.yaml:{problem}")


@pytest.mark.parametrize(("text", "problem"), WRONG_CONTROLLERS.values(), ids=WRONG_CONTROLLERS)
def test_wrong_controller_names_line_path_and_remedy(
    problems: Callable[..., list[str]], text: str, problem: str
) -> None:
    """A wrong entry of a controller, or none at all, is reported in the same form (design 7)."""
    [found] = problems(text)
    assert found.startswith(f"config.yaml:{problem}")


def test_all_problems_come_together_in_order(problems: Callable[..., list[str]]) -> None:
    """File, variables and flags are all checked; the file's problems come first, by line."""
    found = problems(
        "http: {bnd: 1}\ncontrollers:\n  x: {workers: 0}\n  x: {}\nlog: {level: 1, level: 2}\n",
        environ={"KCM_HOST_STARTTIMEOUT": "3"},
        overrides=["oops"],
        flags={"log.format": "xml"},
    )
    places = [problem.split(": ")[0] for problem in found]
    assert places == [
        "config.yaml:1:8",
        "config.yaml:3:16",
        "config.yaml:4:3",
        "config.yaml:5:14",
        "config.yaml:5:17",
        "flag --set oops",
        "flag --log-format",
        "variable KCM_HOST_STARTTIMEOUT",
    ]


def test_problem_has_its_parts_apart(write: Callable[[str], Path]) -> None:
    """A program can read file, line, column, path, fact and remedy of a problem (design 7)."""
    path = write("controllers:\n  ttl: {workerz: 3}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file=path, environ={})
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.column) == (str(path), 2, 9)
    assert (problem.path, problem.fact) == ("controllers.ttl.workerz", "unknown key 'workerz'")
    assert problem.remedy == "did you mean 'workers'?"


def test_nothing_at_all_is_an_error() -> None:
    """Without a file and without flags there is no controller to run (design 7)."""
    with pytest.raises(ConfigError, match="no controller is named"):
        load_settings(file=None, environ={})
