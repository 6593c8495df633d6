"""The command line has the highest precedence, and every value has its origin."""

import pytest
from host.config.conftest import Load, Problems

FILE = "controllers: {ttl: {workers: 1}}\nlog: {level: info}\n"


def test_set_wins_over_variable_and_file(load: Load) -> None:
    """File, variable, `--set`: the later one wins, and its name is the origin (design 7)."""
    variable = {"KCM_HOST_CONTROLLERS__TTL__WORKERS": "2"}
    layers = [
        load(FILE),
        load(FILE, environ=variable),
        load(FILE, environ=variable, overrides=["controllers.ttl.workers=3"]),
    ]
    found = [
        (
            loaded.settings.controllers["ttl"].workers,
            str(loaded.origins["controllers.ttl.workers"]).rsplit("/")[-1],
        )
        for loaded in layers
    ]
    assert found == [
        (1, "config.yaml:1"),
        (2, "variable KCM_HOST_CONTROLLERS__TTL__WORKERS"),
        (3, "flag --set controllers.ttl.workers"),
    ]


def test_flag_wins_over_set(load: Load) -> None:
    """A setting's own flag wins over `--set` of the same setting (design 7)."""
    loaded = load(FILE, overrides=["log.level=debug"], flags={"log.level": "error"})
    assert loaded.settings.log.level == "error"
    assert str(loaded.origins["log.level"]) == "flag --log-level"


def test_later_set_wins(load: Load) -> None:
    """Of two `--set` for one path the later one counts (design 7)."""
    loaded = load(FILE, overrides=["log.level=debug", "log.level=error"])
    assert loaded.settings.log.level == "error"


def test_flag_is_taken_as_it_stands(load: Load) -> None:
    """The text of a flag is no YAML: a path of digits stays a path (design 7)."""
    assert load(FILE, flags={"kubeconfig": "123"}).settings.kubeconfig == "123"


@pytest.mark.parametrize("path", ["controllers.ttl", "controllers.ttl-controller"])
def test_set_reaches_a_controller_under_any_name(load: Load, path: str) -> None:
    """Aliases work in `--set` as in the file (H-16, design 2)."""
    settings = load(FILE, overrides=[f"{path}.workers=3"]).settings
    assert {name: entry.workers for name, entry in settings.controllers.items()} == {"ttl": 3}


@pytest.mark.parametrize(
    "override",
    ["controllers.job={}", "controllers.job=", "controllers.job.workers=1", "controllers={job: }"],
)
def test_set_may_add_a_controller(load: Load, override: str) -> None:
    """The command line is explicit enough to make another controller run (design 7)."""
    assert set(load(FILE, overrides=[override]).settings.controllers) == {"ttl", "job"}


def test_set_of_a_mapping_leaves_its_neighbours(load: Load) -> None:
    """A mapping in `--set` changes the keys it has and no others (design 7)."""
    ttl = load(FILE, overrides=["controllers.ttl={qps: 2}"]).settings.controllers["ttl"]
    assert (ttl.workers, ttl.qps) == (1, 2.0)


def test_null_resets_to_the_default(load: Load) -> None:
    """`--set path=null` removes a value of the file (design 7)."""
    loaded = load("controllers: {ttl: }\nlog: {level: debug}", overrides=["log.level=null"])
    assert loaded.settings.log.level == "info"
    assert str(loaded.origins["log.level"]) == "default"


def test_dot_in_a_key_stands_behind_a_backslash(load: Load) -> None:
    """Keys with dots can be reached, and are shown the way they are written (design 7)."""
    loaded = load(FILE, overrides=[r"controllers.ttl.settings.a\.b=1"])
    assert loaded.settings.controllers["ttl"].settings == {"a.b": 1}
    assert r"controllers.ttl.settings.a\.b" in loaded.origins


@pytest.mark.parametrize("override", ["", "log", "=1", "log..level=1", ".log=1"])
def test_set_without_path_or_value_is_a_problem(problems: Problems, override: str) -> None:
    """A malformed `--set` is an error with an example (design 7)."""
    [problem] = problems(FILE, overrides=[override])
    assert "'--set' takes path=value; write for example" in problem


def test_unknown_path_suggests(problems: Problems) -> None:
    """A typing error in `--set` is an error with a suggestion, as in the file (design 7)."""
    assert problems(FILE, overrides=["log.levl=debug"]) == [
        "flag --set log.levl: log.levl: unknown key 'levl'; did you mean 'level'?"
    ]


def test_every_leaf_has_an_origin(load: Load) -> None:
    """Values that are not set are defaults; others have file and line (design 7)."""
    origins = {path: str(origin) for path, origin in load(FILE).origins.items()}
    assert origins["log.format"] == "default"
    assert origins["telemetry.traces.endpoint"] == "default"
    assert origins["log.level"].endswith("config.yaml:2")
