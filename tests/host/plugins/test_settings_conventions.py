"""Settings have camelCase keys and no unknown ones, whatever a plugin's model says (F-61)."""

import json
from typing import Annotated, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kcm_host.api import Settings
from kcm_host.plugins.plugin import settings_model


class Inner(BaseModel):
    """A model inside."""

    model_config = ConfigDict(extra="allow")

    max_size: int = 1


class Plain(BaseModel):
    """A model whose author has thought of no convention."""

    resync_period: int = 5
    one_inner: Inner = Inner()
    many_inner: list[Inner] = []
    named_inner: dict[str, Annotated[Inner, Field()]] | None = None
    own: int = Field(default=1, alias="OWN")
    itself: "Plain | None" = None

    @model_validator(mode="after")
    def _check(self) -> "Plain":
        if self.resync_period == 13:
            raise ValueError("13 is refused")
        return self


M = TypeVar("M", bound=BaseModel)


def made_of(author: type[M]) -> type[M]:
    """Return the host's model for a model of an author."""
    found = settings_model(author)
    assert found is not None
    assert issubclass(found, author)
    return found


MODEL = made_of(Plain)


def test_keys_are_camel_case() -> None:
    """At every depth; an alias of the author's stays."""
    found = MODEL.model_validate(
        {
            "resyncPeriod": 3,
            "oneInner": {"maxSize": 4},
            "manyInner": [{"maxSize": 2}],
            "namedInner": {"any name": {"maxSize": 7}},
            "OWN": 9,
            "itself": {"resyncPeriod": 8},
        }
    )
    assert (found.resync_period, found.one_inner.max_size, found.own) == (3, 4, 9)
    assert found.many_inner[0].max_size == 2
    assert found.named_inner is not None
    assert found.named_inner["any name"].max_size == 7
    assert found.itself is not None
    assert found.itself.resync_period == 8


def test_instances_are_of_the_authors_models() -> None:
    """The constructor of the plugin gets what it has declared."""
    found = MODEL.model_validate({"oneInner": {}})
    assert isinstance(found, Plain)
    assert isinstance(found.one_inner, Inner)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resync_period": 3},
        {"resyncPeriode": 3},
        {"oneInner": {"max_size": 3}},
        {"manyInner": [{"maxsize": 3}]},
        {"namedInner": {"a": {"x": 3}}},
        {"itself": {"resync_period": 3}},
    ],
    ids=str,
)
def test_unknown_keys_are_refused(wrong: dict[str, object]) -> None:
    """Also where the model allows or ignores them."""
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        MODEL.model_validate(wrong)


def test_validators_of_the_author_are_kept() -> None:
    """They see the fields as declared."""
    with pytest.raises(ValidationError, match="13 is refused"):
        MODEL.model_validate({"resyncPeriod": 13})


def test_a_model_that_follows_the_conventions_is_the_same() -> None:
    """Values, dump and schema have one form."""
    found = MODEL.model_validate({"resyncPeriod": 3})
    assert found.model_dump(by_alias=True)["resyncPeriod"] == 3
    keys = json.dumps(MODEL.model_json_schema())
    assert all(f'"{key}": {{' in keys for key in ("resyncPeriod", "oneInner", "OWN", "maxSize"))


def test_the_base_takes_field_names_in_tests_alone() -> None:
    """An author writes Python names; a file has one form of each key."""

    class Own(Settings):
        """Settings of an author."""

        max_pages: int = 1

    assert Own(max_pages=2).max_pages == 2
    made = made_of(Own)
    assert made.model_validate({"maxPages": 3}).max_pages == 3
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        made.model_validate({"max_pages": 3})
