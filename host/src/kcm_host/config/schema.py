"""The JSON schema of the whole file, for editors and for the reference pages."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import WithDefaultSchema

from kcm_host.api.settings import format_duration
from kcm_host.config.layers import NO_ALIASES, ControllerNames
from kcm_host.config.models import ControllerSettings, HostSettings, Section

_EMPTY = {"type": "null"}
_ABOUT = ("title", "description", "default", "examples")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class GoDurations(GenerateJsonSchema):
    """The generator of pydantic, with defaults of durations in the format of the config file."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema of a field with a default; pydantic writes a timedelta as ISO 8601."""
        made = super().default_schema(schema)
        default = schema.get("default")
        if isinstance(default, timedelta) and "pattern" in made:
            made["default"] = format_duration(default)
        return made


def schema(
    plugin_models: Mapping[str, type[BaseModel] | None], names: ControllerNames = NO_ALIASES
) -> dict[str, Any]:
    """
    Return a schema with the settings of each of these controllers, under all its names.

    None is for a plugin without settings. Other controllers are invalid; without any controller all
    names and settings are valid.

    Every file that loads is valid. Only the loader refuses: YAML that is no JSON, two names of one
    controller, too long durations, addresses that no pattern can express, `3.0` in place of 3.
    """
    sections: list[type[BaseModel]] = [HostSettings, *Section.__subclasses__()]
    # The sections too: only a model that is asked for has a definition of its own, into which null
    # can be added.
    models = [*sections]
    models += [model for model in plugin_models.values() if model is not None]
    refs, generated = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)], schema_generator=GoDurations
    )
    definitions: dict[str, Any] = generated["$defs"]
    host = _definition(definitions, refs[HostSettings, "validation"])
    common = _definition(definitions, refs[ControllerSettings, "validation"])
    for section in sections:
        # A key without a value is common in YAML; the loader takes the default, so the schema must
        # not refuse it (F-89).
        _allow_null(_definition(definitions, refs[section, "validation"])["properties"])
    controllers = host["properties"]["controllers"]
    controllers["additionalProperties"] = _or_empty(controllers["additionalProperties"])
    if plugin_models:
        controllers |= {
            "properties": {
                spelling: _controller(common, refs[model, "validation"] if model else None)
                for name, model in plugin_models.items()
                for spelling in names.spellings(name)
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
    """Return the schema of one controller's entry, which may be null."""
    entry = deepcopy(dict(common))
    entry["properties"]["settings"] = _or_empty(settings or {"type": "object", "maxProperties": 0})
    return _or_empty(entry)


def _allow_null(properties: dict[str, Any]) -> None:
    """Allow null for each key except `controllers`: a null value becomes the default."""
    for key, value in properties.items():
        if key != "controllers":
            properties[key] = _or_empty(value)


def _or_empty(value: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in value:
        kinds = value["anyOf"]
        return {**value, "anyOf": kinds if _EMPTY in kinds else [*kinds, _EMPTY]}
    about = {key: value[key] for key in _ABOUT if key in value}
    checked = {key: rule for key, rule in value.items() if key not in about}
    return {"anyOf": [checked, _EMPTY], **about}
