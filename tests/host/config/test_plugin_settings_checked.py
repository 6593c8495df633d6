"""A plugin's settings are checked against its own model, as well as the host's are."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from cases import cases
from host.config.conftest import Load
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic.alias_generators import to_camel

from kcm_host.api import Invalid
from kcm_host.api.settings import Duration
from kcm_host.config.errors import ConfigError
from kcm_host.config.load import plugin_warnings, validate_plugin_settings


class Colour(StrEnum):
    """A choice as an enumeration."""

    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """A part of a plugin's settings."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    max_size: int = 1


SEVEN = Inner.model_validate({"maxSize": 7})


class Own(BaseModel):
    """A plugin's settings with many kinds of fields."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    resync_period: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(minutes=5)
    inner: Inner = Inner()
    optional: Inner | None = None
    items: list[Inner] = []
    named: dict[str, Inner] = {}
    colour: Colour = Colour.RED
    either: int | Literal["auto"] = "auto"
    api_token: SecretStr | None = None
    pin: SecretStr | None = None
    word: str | None = "given"
    other: int = Field(default=0, validation_alias=AliasChoices("otherName", "oldName"))

    @field_validator("word")
    @classmethod
    def _no_shouting(cls, word: str | None) -> str | None:
        if word and word.isupper():
            raise ValueError("words in capitals are too loud")
        if word == "":
            raise Invalid("an empty word says nothing", "leave 'word' out")
        return word


class Needy(BaseModel):
    """Settings that cannot be left out."""

    zone: str


MakeOwn = Callable[..., Own]
HEAD = "controllers:\n  mine:\n    settings: "


@pytest.fixture
def own(load: Load) -> MakeOwn:
    """Loads settings of the controller and validates them."""

    def validating(text: str = "", **layers: Any) -> Own:
        return validate_plugin_settings(load(HEAD + text, **layers), "mine", Own)

    return validating


#: Settings, and what is said: column, path below `controllers.mine.settings`, fact, remedy.
WRONG = cases("""
{resyncPeriode: 5m}
-> 16: resyncPeriode: unknown key 'resyncPeriode'; did you mean 'resyncPeriod'?
{named: {x: {maxsize: 1}}}
-> 28: named.x.maxsize: unknown key 'maxsize'; did you mean 'maxSize'?
{resyncPeriod: 10}
-> 30: resyncPeriod: duration '10' has no unit; write
{resyncPeriod: 0s}
-> 30: resyncPeriod: must be more than '0s', found '0s'
{items: [{}, {maxSize: x}]}
-> 38: items[1].maxSize: must be a whole number, found 'x'
{items: {}}
-> 23: items: must be a list, found a mapping
{colour: blu}
-> 24: colour: must be 'red' or 'blue', found 'blu'; did you mean 'blue'?
{word: LOUD}
-> 22: word: words in capitals are too loud
{word: ''}
-> 22: word: an empty word says nothing; leave 'word' out
{pin: 1234}
-> 21: pin: must be text, found '**********'; put it in quotes
{apiToken: [hunter2]}
-> 26: apiToken: must be text, found a list
""")


def test_valid_settings_become_the_model(own: MakeOwn) -> None:
    """The plugin gets an instance of its own model (design 4 and 7)."""
    settings = own("{resyncPeriod: 1h, inner: {maxSize: 3}, word: }")
    assert settings.resync_period == timedelta(hours=1)
    assert settings.inner.max_size == 3
    assert settings.word is None


def test_no_settings_mean_the_models_defaults(own: MakeOwn) -> None:
    """Empty settings are the defaults of the model (design 7)."""
    assert own() == own("{}") == Own()


@pytest.mark.parametrize(("text", "problem"), WRONG.items(), ids=WRONG)
def test_wrong_settings_name_line_path_and_remedy(own: MakeOwn, text: str, problem: str) -> None:
    """A plugin's settings get errors as good as the host's; secrets stay out (design 7)."""
    with pytest.raises(ConfigError) as caught:
        own(text)
    [found] = map(str, caught.value.problems)
    column, _, said = problem.partition(": ")
    assert f"config.yaml:3:{column}: controllers.mine.settings.{said}" in found
    assert "hunter2" not in found


def test_each_way_of_a_union_is_reported_at_the_value(own: MakeOwn) -> None:
    """A value that is valid for no member of a union has its place in the file (design 7)."""
    with pytest.raises(ConfigError) as caught:
        own("{either: x}")
    paths = {(problem.path, problem.line, problem.column) for problem in caught.value.problems}
    assert paths == {("controllers.mine.settings.either", 3, 24)}


@pytest.mark.parametrize("text", ["", "{}"])
def test_missing_setting_names_the_controller(load: Load, text: str) -> None:
    """A missing required setting is an error with its path, at the controller (design 7)."""
    with pytest.raises(ConfigError) as caught:
        validate_plugin_settings(load(HEAD + text), "mine", Needy)
    [problem] = caught.value.problems
    assert (problem.path, problem.fact) == ("controllers.mine.settings.zone", "'zone' is missing")
    assert problem.line == (3 if text else 2)


def test_plugin_without_model_takes_no_settings(load: Load) -> None:
    """Settings for a plugin that has none are an error at their line (design 7)."""
    with pytest.raises(ConfigError) as caught:
        validate_plugin_settings(load(HEAD + "{a: 1}"), "mine", None)
    [problem] = caught.value.problems
    assert problem.line == 3
    assert problem.fact == "controller 'mine' has no settings of its own"
    validate_plugin_settings(load(HEAD + "{}"), "mine", None)


def test_controller_is_found_under_its_alias(load: Load) -> None:
    """An upstream name does for the controller here too (H-16)."""
    loaded = load("controllers: {ttl: {settings: {word: a}}}")
    assert validate_plugin_settings(loaded, "ttl-controller", Own).word == "a"


def test_controller_that_does_not_run_is_an_error(load: Load) -> None:
    """Asking for a controller that is not configured suggests those that are (design 7)."""
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        validate_plugin_settings(load(HEAD), "mien", Own)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("RESYNCPERIOD", "1h", {"resync_period": timedelta(hours=1)}),
        ("RESYNC_PERIOD", "1h", {"resync_period": timedelta(hours=1)}),
        ("INNER__MAX_SIZE", "7", {"inner": SEVEN}),
        ("OPTIONAL__MAXSIZE", "7", {"optional": SEVEN}),
        ("OTHERNAME", "7", {"other": 7}),
        ("NAMED", "{x: {maxSize: 7}}", {"named": {"x": SEVEN}}),
        ("ITEMS", "[{maxSize: 7}]", {"items": [SEVEN]}),
    ],
)
def test_variable_matches_the_models_keys(
    own: MakeOwn, name: str, value: str, expected: dict[str, object]
) -> None:
    """Variables set keys of the plugin's model (design 7)."""
    settings = own(environ={f"KCM_HOST_CONTROLLERS__MINE__SETTINGS__{name}": value})
    assert {key: getattr(settings, key) for key in expected} == expected


def test_variable_matches_keys_of_the_file(own: MakeOwn) -> None:
    """If the model allows any key, a variable sets those in the file (design 7)."""
    settings = own(
        "{named: {my-shelf: {maxSize: 1}}}",
        environ={"KCM_HOST_CONTROLLERS__MINE__SETTINGS__NAMED__MY_SHELF__MAX_SIZE": "9"},
    )
    assert settings.named["my-shelf"].max_size == 9


def test_flag_wins_over_variable_in_plugin_settings(own: MakeOwn) -> None:
    """The order of layers holds for a plugin's settings too (design 7)."""
    variable = {"KCM_HOST_CONTROLLERS__MINE__SETTINGS__WORD": "variable"}
    flag = ["controllers.mine.settings.word=flag"]
    assert own("{word: file}").word == "file"
    assert own("{word: file}", environ=variable).word == "variable"
    assert own("{word: file}", environ=variable, overrides=flag).word == "flag"


def test_wrong_value_in_a_variable_names_it(own: MakeOwn) -> None:
    """A variable with a wrong value is the place of the problem (design 7)."""
    name = "KCM_HOST_CONTROLLERS__MINE__SETTINGS__INNER__MAXSIZE"
    with pytest.raises(ConfigError) as caught:
        own(environ={name: "big"})
    assert str(caught.value) == (
        f"variable {name}: controllers.mine.settings.inner.maxSize: "
        "must be a whole number, found 'big'"
    )


def test_variable_without_a_key_is_a_warning(load: Load) -> None:
    """A variable that matches no key is a warning with the closest name (design 7)."""
    name = "KCM_HOST_CONTROLLERS__MINE__SETTINGS__RESYNCPERIODE"
    loaded = load(HEAD, environ={name: "5m"})
    assert plugin_warnings(loaded, "mine", Own) == (
        f"variable '{name}' is no setting and is ignored; did you mean '{name[:-1]}'?",
    )
    assert plugin_warnings(loaded, "mine", None) == (
        f"variable '{name}' is no setting and is ignored",
    )
    assert validate_plugin_settings(loaded, "mine", Own) == Own()
