"""The command line has the highest precedence, and every value has its origin."""

from typing import Any

import pytest
from host.config.conftest import Load, Problems

from kcm_host.config.load import rows

FILE = "controllers: {ttl: {workers: 1}}\nlog: {level: info}\n"
WORKERS = "controllers.ttl.workers"
VARIABLE = {"KCM_HOST_CONTROLLERS__TTL__WORKERS": "2"}
#: What is given beside the file; the setting, its value and its origin.
LAYERS: dict[str, tuple[dict[str, Any], str, object, str]] = {
    "the file alone": ({}, WORKERS, 1, "config.yaml:1"),
    "a variable over the file": (
        {"environ": VARIABLE},
        WORKERS,
        2,
        f"variable {next(iter(VARIABLE))}",
    ),
    "a set over both": (
        {"environ": VARIABLE, "overrides": [f"{WORKERS}=3"]},
        WORKERS,
        3,
        f"flag --set {WORKERS}",
    ),
    "a set under another name of the controller (H-16)": (
        {"overrides": ["controllers.ttl-controller.workers=3"]},
        WORKERS,
        3,
        "flag --set controllers.ttl-controller.workers",
    ),
    "a flag of its own over a set": (
        {"overrides": ["log.level=debug"], "flags": {"log.level": "error"}},
        "log.level",
        "error",
        "flag --log-level",
    ),
    "the later of two sets": (
        {"overrides": ["log.level=debug", "log.level=error"]},
        "log.level",
        "error",
        "flag --set log.level",
    ),
    "a flag is no YAML": (
        {"flags": {"kubeconfig": "123"}},
        "kubeconfig",
        "123",
        "flag --kubeconfig",
    ),
    "null is the default": ({"overrides": ["log.level=null"]}, "log.level", "info", "default"),
    "nothing is the default": ({}, "log.format", "text", "default"),
    "a dot in a key stands behind a backslash": (
        {"overrides": [r"controllers.ttl.settings.a\.b=1"]},
        r"controllers.ttl.settings.a\.b",
        1,
        r"flag --set controllers.ttl.settings.a\.b",
    ),
}


@pytest.mark.parametrize(("layers", "path", "value", "origin"), LAYERS.values(), ids=LAYERS)
def test_the_highest_layer_wins(
    load: Load, layers: dict[str, Any], path: str, value: object, origin: str
) -> None:
    """File, variable, `--set`, own flag: the later one wins, and its name is the origin."""
    rows_of = {row.path: row for row in rows(load(FILE, **layers))}
    assert rows_of[path].value == value
    assert str(rows_of[path].origin).rsplit("/", 1)[-1] == origin


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
