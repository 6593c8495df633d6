"""Conventions of settings: camelCase keys, no unknown ones, whatever the plugin's model says."""

from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.alias_generators import to_camel

from kcm_host.plugins.quarantine import PluginError

M = TypeVar("M", bound=BaseModel)


def settings_model(result: object) -> type[BaseModel] | None:
    """Return the model for what `kcm_settings` returned; raise `PluginError` if it is none."""
    if result is None:
        return None
    if not isinstance(result, type) or not issubclass(result, BaseModel):
        raise PluginError(
            f"'kcm_settings' returned {result!r}, no subclass of pydantic's BaseModel",
            "return the model class itself, or leave 'kcm_settings' out",
        )
    # Raises when annotations of the model cannot be resolved.
    result.model_rebuild()
    return with_conventions(result, {})


def with_conventions(model: type[M], derived: dict[type, type]) -> type[M]:
    """
    Return a subclass of `model` that reads camelCase keys and refuses unknown ones.

    The same holds for the models of its fields. `derived` has the subclasses made so far: a model
    may contain itself. Fields with an alias of their own keep it.
    """
    if model in derived:
        return derived[model]
    # By alias alone, so that a file has one form of each key.
    config = ConfigDict(
        alias_generator=to_camel, extra="forbid", validate_by_alias=True, validate_by_name=False
    )
    own = {"__module__": model.__module__, "__doc__": model.__doc__, "model_config": config}
    made: type[M] = cast(Any, type(model))(model.__name__, (model,), own)
    derived[model] = made
    changed: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        annotation = _converted(field.annotation, derived)
        if annotation is not field.annotation:
            changed[name] = (annotation, field)
    if changed:
        made = create_model(
            model.__name__,
            __base__=made,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **changed,
        )
        derived[model] = made
    return made


def _converted(annotation: Any, derived: dict[type, type]) -> Any:
    """Return the annotation with its models replaced; itself when there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return with_conventions(annotation, derived)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = _converted(arguments[0], derived)
        return annotation if inner is arguments[0] else Annotated[(inner, *arguments[1:])]
    converted = tuple(_converted(each, derived) for each in arguments)
    if all(new is old for new, old in zip(converted, arguments, strict=True)):
        return annotation
    return Union[converted] if origin in (Union, UnionType) else origin[converted]  # noqa: UP007 - made at run time
