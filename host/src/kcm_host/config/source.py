"""The one source of settings that pydantic-settings is given: what we have merged ourselves."""

from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

# One keyword carries everything: a file's keys as keywords could hit pydantic-settings' own ones.
MERGED: Final = "merged"


class MergedSource(PydanticBaseSettingsSource):
    """
    Hands over the merged values, or the keywords of a direct construction where there are none.

    pydantic-settings' own sources do not carry camelCase keys, lines, origins or durations.
    """

    def __init__(
        self, settings_cls: type[BaseSettings], keywords: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._keywords = keywords

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The value under a field's key, None if there is none; never one that needs parsing."""
        key = field.alias or field_name
        return self().get(key), key, False

    def __call__(self) -> dict[str, Any]:
        """All values, as nested plain data with the keys of the file."""
        given = self._keywords()
        merged: dict[str, Any] = given.get(MERGED, given)
        return merged
