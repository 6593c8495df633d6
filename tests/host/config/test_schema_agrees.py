"""The JSON schema and the loader take the same files."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wrong_configs import BEYOND_A_SCHEMA, RUNS, WRONG, WRONG_CONTROLLERS

from kcm_host.cli.installed import controller_names
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import load_settings
from kcm_host.config.schema import schema
from kcm_host.config.tree import DEFAULT
from kcm_host.config.yaml import read_text
from kcm_host_resourcequota.settings import QuotaSettings

VALIDATOR = jsonschema.Draft202012Validator(schema({}))
REJECTED = {**{text: RUNS + text for text in WRONG}, **{text: text for text in WRONG_CONTROLLERS}}
#: What the loader says of that which a schema cannot know.
ONLY_LOADER = re.compile(
    r"by another name|must be at most '24h'|is too (long|short)|is no address|no URL of an HTTP"
    r"|must be a whole number|there is no home folder"
)

NAMES = st.sampled_from(["ttl", "ttl-controller", "x", "a.b", "1"])
DURATIONS = ["5s", "-0s", "-5s", "+1h30m", "1", "5s\n", "٣s", "99999h", "24h"]
ADDRESSES = ["a:0", "[::1]:80", "[1:2:3]:1", "a:65536", "é:1", "a:1\n", "localhost:http"]
URLS = ["http://a", "HTTPS://u:p@b:1/x?y", "http://[::1]:0", "http:// a", "http://a:99999"]
WORDS = ["", "~/x", "info", "json", "none", "yes", "true"]
TEXTS = st.sampled_from([*DURATIONS, *ADDRESSES, *URLS, *WORDS])
NUMBERS = st.sampled_from([0, 1, -1, 2, 3.0, 0.5, 1000, 1001, 10**6, 10**6 + 1, 10**30])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2)
)


def some(keys: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Return mappings with some of these keys, now and then anything else."""
    fitting = st.fixed_dictionaries({}, optional=keys)
    return st.one_of(fitting, fitting, VALUES)


def either(*fitting: Any) -> st.SearchStrategy[Any]:
    """Return one of these values, or any."""
    return st.one_of(st.sampled_from(fitting), VALUES)


CONTROLLER = some(
    {
        "workers": either(1, 1000),
        "qps": either(1, 2.5),
        "burst": either(1, 7),
        "settings": either({}, {"a": None}),
    }
)
SECTIONS: dict[str, st.SearchStrategy[Any]] = {
    "kubeconfig": either("config"),
    "extensions": either([], ["a"]),
    "serviceAccountCredentials": either(True),
    "leaderElection": some({"enabled": either(False)}),
    "http": some({"bind": either("a:1")}),
    "telemetry": some(
        {
            "traces": some(
                {
                    "exporter": either("otlp"),
                    "endpoint": either("http://a:1"),
                    "sampleRatio": either(0.5),
                }
            )
        }
    ),
    "log": some({"level": either("info"), "format": either("json")}),
    "startTimeout": either("5s"),
    "shutdownTimeout": either("0s"),
}
FILES = st.fixed_dictionaries(
    {"controllers": st.dictionaries(NAMES, CONTROLLER, max_size=2) | VALUES}, optional=SECTIONS
)


@pytest.mark.parametrize("name", REJECTED, ids=[text[:60] for text in REJECTED])
def test_what_the_loader_refuses_the_schema_refuses(name: str) -> None:
    """Every refused file is refused by the schema, or is listed as beyond it (F-89, F-86)."""
    root, _ = read_text(REJECTED[name], DEFAULT)
    assert root is not None
    assert VALIDATOR.is_valid(root.plain()) is (name in BEYOND_A_SCHEMA)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name a file for one example after the other."""
    return tmp_path_factory.mktemp("schema") / "config.json"


@given(value=FILES)
def test_schema_and_loader_take_the_same_files(path: Path, value: Any) -> None:
    """A file that loads is valid, and the reverse except for rules without a schema (F-89)."""
    path.write_text(json.dumps(value), encoding="utf-8")
    try:
        load_settings(file=path, environ={})
    except ConfigError as error:
        told = [problem.fact for problem in error.problems]
        assert not VALIDATOR.is_valid(value) or all(map(ONLY_LOADER.search, told)), told
    else:
        VALIDATOR.validate(value)


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        (None, True),
        ({"settings": None}, True),
        ({"settings": {"resyncPeriod": "5m"}}, True),
        ({"settings": {"resyncPeriod": 5}}, False),
        ({"settings": {"resync": "5m"}}, False),
    ],
)
def test_settings_of_a_plugin_are_part_of_the_schema(entry: Any, valid: bool) -> None:
    """An entry that is left empty, and settings that are, are valid as in the loader (F-89)."""
    made = schema({"resourcequota": QuotaSettings}, controller_names())
    validator = jsonschema.Draft202012Validator(made)
    for name in ("resourcequota", "resourcequota-controller"):
        assert validator.is_valid({"controllers": {name: entry}}) is valid
    assert not validator.is_valid({"controllers": {"other": entry}})
