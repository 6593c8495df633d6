"""Environment variables override the file, whatever way they spell a key."""

import pytest
from cases import cases
from host.config.conftest import Load, Problems

from kcm_host.config.load import load_settings

FILE = """
controllers:
  ttl: {workers: 1}
  clusterrole-aggregation: {}
leaderElection: {enabled: false}
"""
#: Variable, its value, the setting.
SET = [
    ("KCM_HOST_LOG__LEVEL", "debug", "log.level"),
    ("KCM_HOST_STARTTIMEOUT", "5s", "startTimeout"),
    ("KCM_HOST_START_TIMEOUT", "5s", "startTimeout"),
    ("KCM_HOST_log__level", "debug", "log.level"),
    ("KCM_HOST_LEADERELECTION__ENABLED", "false", "leaderElection.enabled"),
    ("KCM_HOST_LEADER_ELECTION__ENABLED", "false", "leaderElection.enabled"),
    ("KCM_HOST_CONTROLLERS__TTL__WORKERS", "3", "controllers.ttl.workers"),
    ("KCM_HOST_CONTROLLERS__TTL_CONTROLLER__WORKERS", "3", "controllers.ttl.workers"),
    (
        "KCM_HOST_CONTROLLERS__CLUSTERROLE_AGGREGATION__QPS",
        "0.5",
        "controllers.clusterrole-aggregation.qps",
    ),
    ("KCM_HOST_HTTP__BIND", "[::1]:0", "http.bind"),
    ("KCM_HOST_LOG", "{level: debug}", "log.level"),
    ("KCM_HOST_CONTROLLERS", "{ttl-controller: {workers: 3}}", "controllers.ttl.workers"),
]
IGNORED = {
    "other prefix": ("KCM_LOG__LEVEL", "x"),
    "empty": ("KCM_HOST_LOG__LEVEL", ""),
    "service link, host": ("KCM_HOST_SERVICE_HOST", "10.0.0.1"),
    "service link, named port": ("KCM_HOST_SERVICE_PORT_HTTP", "80"),
    "service link, port": ("KCM_HOST_PORT", "tcp://10.0.0.1:80"),
    "service link, address": ("KCM_HOST_PORT_10270_TCP_ADDR", "10.0.0.1"),
}
#: Variables, and what the warning says of them.
UNKNOWN = cases("""
KCM_HOST_LOG_LEVEL
-> is no setting and is ignored; did you mean 'KCM_HOST_LOG__LEVEL'?
KCM_HOST_CONTROLLERS__TTL__WORKRES
-> is no setting and is ignored; did you mean 'KCM_HOST_CONTROLLERS__TTL__WORKERS'?
KCM_HOST_CONTROLLERS__TLL__WORKERS
-> is no setting and is ignored; did you mean 'KCM_HOST_CONTROLLERS__TTL__WORKERS'?; 'TLL' is no
   controller that runs, and only the variable 'KCM_HOST_CONTROLLERS' may
KCM_HOST_CONTROLLERS__RESOURCEQUOTA
-> is no setting and is ignored; 'RESOURCEQUOTA' is no controller that runs, and only the variable
   'KCM_HOST_CONTROLLERS' may add one
KCM_HOST_KUBECONFIG__X
-> is no setting and is ignored; did you mean
KCM_HOST_
-> is no setting and is ignored
KCM_HOST_QQQ
-> is no setting and is ignored
""")


@pytest.mark.parametrize(("name", "value", "path"), SET)
def test_variable_sets_the_key_it_means(load: Load, name: str, value: str, path: str) -> None:
    """Segments match keys ignoring case, dash and underscore; the origin names it (design 7)."""
    loaded = load(FILE, environ={name: value})
    assert str(loaded.origins[path]) == f"variable {name}"
    assert loaded.warnings == ()


def test_values_have_the_type_that_yaml_gives_them(load: Load) -> None:
    """Numbers, truths and durations in variables need no further marks (design 7)."""
    settings = load(
        FILE,
        environ={
            "KCM_HOST_CONTROLLERS__TTL__WORKERS": "3",
            "KCM_HOST_CONTROLLERS__TTL__QPS": "2.5",
            "KCM_HOST_LEADERELECTION__ENABLED": "false",
            "KCM_HOST_SHUTDOWNTIMEOUT": "1m",
            "KCM_HOST_HTTP__BIND": "[::1]:0",
        },
    ).settings
    ttl = settings.controllers["ttl"]
    assert (ttl.workers, ttl.qps) == (3, 2.5)
    assert settings.shutdown_timeout.total_seconds() == 60
    assert settings.http.address == ("::1", 0)


@pytest.mark.parametrize(("name", "value"), IGNORED.values(), ids=IGNORED)
def test_variable_of_others_says_nothing(load: Load, name: str, value: str) -> None:
    """Unset settings and what Kubernetes adds for a Service called kcm-host pass silently."""
    loaded = load(FILE, environ={name: value})
    assert loaded.warnings == ()
    assert loaded.settings == load(FILE).settings


@pytest.mark.parametrize(("name", "warning"), UNKNOWN.items(), ids=UNKNOWN)
def test_unknown_variable_is_a_warning(load: Load, name: str, warning: str) -> None:
    """An unknown variable with our prefix is a warning and has no effect (design 7)."""
    loaded = load(FILE, environ={name: "1"})
    [found] = loaded.warnings
    assert found.startswith(f"variable '{name}' {warning}")
    assert loaded.settings == load(FILE).settings


def test_variable_reaches_a_controller_that_a_flag_adds(load: Load) -> None:
    """Variables may set up a controller that `--set` adds (design 7)."""
    loaded = load(
        FILE,
        environ={"KCM_HOST_CONTROLLERS__RESOURCEQUOTA__WORKERS": "7"},
        overrides=["controllers.resourcequota={}"],
    )
    assert loaded.settings.controllers["resourcequota"].workers == 7


def test_ambiguous_segment_sets_nothing(load: Load) -> None:
    """A variable that matches two controllers is a warning and changes neither (design 7)."""
    loaded = load(
        "controllers: {a-b: {}, a_b: {}}\nleaderElection: {enabled: false}",
        environ={"KCM_HOST_CONTROLLERS__A_B__WORKERS": "3"},
    )
    assert [entry.workers for entry in loaded.settings.controllers.values()] == [None, None]
    assert len(loaded.warnings) == 1


def test_more_specific_variable_wins(load: Load) -> None:
    """A variable for one key wins over one for its whole section (design 7)."""
    environ = {"KCM_HOST_LOG__LEVEL": "error", "KCM_HOST_LOG": "{level: debug, format: json}"}
    log = load(FILE, environ=environ).settings.log
    assert (log.level, log.format) == ("error", "json")


def test_two_variables_for_one_key_are_a_warning(load: Load) -> None:
    """Two spellings of one variable are named, with the one that wins (design 7)."""
    loaded = load(FILE, environ={"KCM_HOST_STARTTIMEOUT": "1s", "KCM_HOST_START_TIMEOUT": "2s"})
    assert loaded.warnings == (
        (
            "variables 'KCM_HOST_STARTTIMEOUT' and 'KCM_HOST_START_TIMEOUT' both set "
            "'startTimeout'; the latter wins: remove one of them"
        ),
    )
    assert loaded.settings.start_timeout.total_seconds() == 2


def test_key_twice_in_a_value_is_a_problem(problems: Problems) -> None:
    """A mapping in a variable follows the rules of the file (design 7)."""
    assert problems(FILE, environ={"KCM_HOST_LOG": "{level: info, level: debug}"}) == [
        "variable KCM_HOST_LOG: key 'level' stands here twice; remove one of them"
    ]


def test_reserved_variable_is_left_to_the_caller() -> None:
    """Names that the caller reads itself are neither settings nor warnings (design 7)."""
    loaded = load_settings(
        file=None,
        environ={"KCM_HOST_CONFIG": "a.yaml"},
        overrides=["controllers.ttl={}", "leaderElection.enabled=false"],
        reserved=["KCM_HOST_CONFIG"],
    )
    assert loaded.warnings == ()


def test_process_environment_is_not_read(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the passed variables are used, not those that pydantic-settings finds (design 7)."""
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")
    monkeypatch.setenv("LOG", '{"level": "debug"}')
    monkeypatch.setenv("KCM_HOST_LOG__LEVEL", "debug")
    settings = load(FILE).settings
    assert (settings.kubeconfig, settings.log.level) == (None, "info")
