"""The JSON schema of the whole file, for editors and for the reference pages."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import WithDefaultSchema

from kcm_host.api.duration import PATTERN, format_duration
from kcm_host.config.models import ControllerSettings, HostSettings
from kcm_host.config.names import spellings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class GoDurations(GenerateJsonSchema):
    """Pydantic's generator, with the defaults of durations in the form that we read."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """The schema of a field with a default; pydantic writes that of a timedelta as ISO 8601."""
        made = super().default_schema(schema)
        default = schema.get("default")
        if isinstance(default, timedelta) and made.get("pattern") == PATTERN:
            made["default"] = format_duration(default)
        return made


def schema(plugin_models: Mapping[str, type[BaseModel] | None]) -> dict[str, Any]:
    """
    A schema in which each given controller has the settings of its plugin, under all its names.

    None stands for a plugin without settings. Other controllers are errors, unless none is given:
    then any name and any settings will do.
    """
    models: list[type[BaseModel]] = [HostSettings, ControllerSettings]
    models += [model for model in plugin_models.values() if model is not None]
    refs, whole = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)], schema_generator=GoDurations
    )
    definitions: dict[str, Any] = whole["$defs"]
    host = _definition(definitions, refs[HostSettings, "validation"])
    common = _definition(definitions, refs[ControllerSettings, "validation"])
    if plugin_models:
        host["properties"]["controllers"] |= {
            "properties": {
                spelling: _controller(common, refs[model, "validation"] if model else None)
                for name, model in plugin_models.items()
                for spelling in spellings(name)
            },
            "additionalProperties": False,
        }
    others = {name: value for name, value in definitions.items() if value is not host}
    about = {"title": "kcm-host", "description": "Configuration of kcm-host."}
    return {"$schema": _DIALECT, **host, **about, "$defs": others}


def _definition(definitions: Mapping[str, Any], ref: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = definitions[ref["$ref"].removeprefix("#/$defs/")]
    return found


def _controller(common: Mapping[str, Any], settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema of one controller's entry, which may be left empty (null)."""
    entry = deepcopy(dict(common))
    entry["properties"]["settings"] = settings or {"type": "object", "maxProperties": 0}
    return {"anyOf": [entry, {"type": "null"}]}
