"""The base class for the settings of a controller."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Settings(BaseModel):
    """
    A base for the model that `kcm_settings` returns: immutable, and strict about types.

    The keys in the configuration are the field names in camelCase, and unknown keys are errors.
    The host applies these two rules to any pydantic model; with this base they also hold in tests,
    where the constructor takes the field names too: `WebsiteSettings(max_pages=2)`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )
