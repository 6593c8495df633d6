"""Effective settings as a table, and the schema of the file."""

import json
from datetime import timedelta
from typing import Annotated

from host.config.conftest import Load
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from kcm_host.api.settings import Duration
from kcm_host.cli.installed import controller_names
from kcm_host.config.load import Loaded, rows, validate_plugin_settings
from kcm_host.config.schema import schema


class Settings(BaseModel):
    """A plugin's settings."""

    model_config = ConfigDict(alias_generator=to_camel)

    resync_period: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(minutes=5)
    pin: SecretStr = SecretStr("none")
    word: str = ""


def shown(loaded: Loaded, **plugins: BaseModel) -> dict[str, tuple[object, str]]:
    """Rows by path, origins without the folder."""
    return {
        row.path: (row.value, str(row.origin).rsplit("/", 1)[-1]) for row in rows(loaded, plugins)
    }


def test_rows_have_value_and_origin_of_every_leaf(load: Load) -> None:
    """Each leaf is there once, as a plain value, with file and line, variable, flag or default."""
    loaded = load(
        "controllers:\n  ttl: {workers: 2}\nstartTimeout: 90s\n",
        environ={"KCM_HOST_LOG__FORMAT": "json"},
        flags={"log.level": "debug"},
    )
    table = shown(loaded)
    assert table["controllers.ttl.workers"] == (2, "config.yaml:2")
    assert table["controllers.ttl.qps"] == (None, "default")
    assert table["startTimeout"] == ("1m30s", "config.yaml:3")
    assert table["shutdownTimeout"] == ("10s", "default")
    assert table["log.format"] == ("json", "variable KCM_HOST_LOG__FORMAT")
    assert table["log.level"] == ("debug", "flag --log-level")
    assert table.keys() == loaded.origins.keys()


def test_rows_show_a_plugins_defaults_and_variables(load: Load) -> None:
    """With the validated settings of a plugin its defaults and variables are shown (design 7)."""
    variable = "KCM_HOST_CONTROLLERS__TTL__SETTINGS__WORD"
    loaded = load("controllers: {ttl: {settings: {pin: '12'}}}", environ={variable: "hello"})
    table = shown(loaded, ttl=validate_plugin_settings(loaded, "ttl", Settings))
    assert table["controllers.ttl.settings.resyncPeriod"] == ("5m", "default")
    assert table["controllers.ttl.settings.word"] == ("hello", f"variable {variable}")
    assert table["controllers.ttl.settings.pin"] == ("**********", "config.yaml:1")


def test_rows_show_how_many_workers_there_are_in_the_end(load: Load) -> None:
    """Without it the number is the plugin's or the host's, and the origin is the default."""
    loaded = load("controllers:\n  ttl: {workers: 2}\n  backup: {}\n  gone: {}\n")
    table = {row.path: row for row in rows(loaded, workers={"ttl": 2, "backup": 10})}
    number, origin = (
        {name: getattr(table[f"controllers.{name}.workers"], part) for name in ("ttl", "backup")}
        for part in ("value", "origin")
    )
    assert number == {"ttl": 2, "backup": 10}
    assert origin["ttl"].line == 2
    assert str(origin["backup"]) == "default"
    assert table["controllers.gone.workers"].value is None


def test_rows_mask_what_looks_secret(load: Load) -> None:
    """Unchecked settings under telling keys and passwords in URLs are not shown (design 7)."""
    loaded = load(
        "controllers: {a: {settings: {db: {password: p1}, apiKey: p2, tokens: [p3], "
        "url: 'https://ada:p4@example.org/x', name: plain}}}\n"
        "telemetry: {traces: {endpoint: 'http://ada:p5@127.0.0.1:4318'}}",
        overrides=["controllers.a.settings.secret=p6"],
    )
    text = str(rows(loaded))
    assert not [secret for secret in ("p1", "p2", "p3", "p4", "p5", "p6") if secret in text]
    assert shown(loaded)["controllers.a.settings.name"][0] == "plain"


def test_schema_describes_the_whole_file() -> None:
    """Each key has its type, bounds and default as they are written in the file (design 7)."""
    found = json.loads(json.dumps(schema({"ttl": None, "backup": Settings})))
    assert found["required"] == ["controllers"]
    assert found["additionalProperties"] is False
    assert found["properties"]["startTimeout"]["default"] == "10s"
    assert found["properties"]["startTimeout"]["anyOf"][0]["type"] == "string"
    ratio, _ = found["$defs"]["TracesSettings"]["properties"]["sampleRatio"]["anyOf"]
    assert ratio["maximum"] == 1


def test_schema_has_the_settings_of_each_plugin() -> None:
    """A controller's entry, under any of its names, has its plugin's settings (design 7, H-16)."""
    found = schema({"ttl": None, "backup": Settings}, controller_names())
    controllers = found["properties"]["controllers"]
    assert set(controllers["properties"]) == {"ttl", "ttl-controller", "backup"}
    assert controllers["additionalProperties"] is False
    entry, empty = controllers["properties"]["backup"]["anyOf"]
    assert empty == {"type": "null"}
    ref = entry["properties"]["settings"]["anyOf"][0]["$ref"]
    settings = found["$defs"][ref.rsplit("/", 1)[-1]]
    assert settings["properties"]["resyncPeriod"]["default"] == "5m"
    without, _ = controllers["properties"]["ttl"]["anyOf"]
    assert {"type": "object", "maxProperties": 0} in without["properties"]["settings"]["anyOf"]


def test_schema_keeps_models_of_one_name_apart() -> None:
    """Two plugins may both call their model `Settings` (design 7)."""

    class Other(BaseModel):
        """Another plugin's settings."""

        size: int = 1

    Other.__name__ = Other.__qualname__ = "Settings"
    found = schema({"a": Settings, "b": Other})
    refs = {
        name: found["properties"]["controllers"]["properties"][name]["anyOf"][0]["properties"][
            "settings"
        ]["anyOf"][0]["$ref"]
        for name in ("a", "b")
    }
    assert refs["a"] != refs["b"]
    assert all(ref.removeprefix("#/$defs/") in found["$defs"] for ref in refs.values())


def test_schema_without_plugins_takes_any_controller() -> None:
    """Without knowledge of plugins the schema forbids no name (design 7)."""
    controllers = schema({})["properties"]["controllers"]
    assert "$ref" in controllers["additionalProperties"]["anyOf"][0]
