"""From a candidate to a plugin: every stage in its order, each guarded."""

import pluggy
from pydantic import BaseModel

from kcm_host.loading import hooks
from kcm_host.loading.declared import checked_workers
from kcm_host.loading.finder import Candidate
from kcm_host.loading.importing import plugin_class
from kcm_host.loading.plugin import Plugin
from kcm_host.loading.quarantine import Fault, Stage, guarded, report_to_makers
from kcm_host.loading.roles import CONTROLLER, Role
from kcm_host.loading.versions import check_host_version


def vetted(candidate: Candidate, role: Role, *, host_version: str) -> tuple[Plugin, object]:
    """
    Give the plugin, and the instance it was tried with.

    Raises `BrokenPlugin` at the first stage that fails. The version comes first, so that a
    plugin made for another host is not even imported.
    """
    with guarded(candidate, Stage.VERSION, doing="checking the host's version"):
        check_host_version(candidate, host_version)
    cls = plugin_class(candidate)
    instance = _constructed(candidate, cls)
    manager = hooks.new_manager()
    with guarded(candidate, Stage.REGISTER, doing="registering its hooks"):
        found = hooks.implementations(manager, instance)
        _register(manager, instance, found, candidate=candidate, role=role)
    with guarded(candidate, Stage.VALIDATE, doing="checking its hooks"):
        _validate(instance, found, role)
    model = workers = None
    if role is CONTROLLER:
        with guarded(candidate, Stage.VALIDATE, doing="'kcm_settings'"):
            model = _settings_model(manager.hook.kcm_settings())
        with guarded(candidate, Stage.VALIDATE, doing="'kcm_workers'"):
            workers = checked_workers(manager.hook.kcm_workers())
    implemented = tuple(sorted(one.hook for one in found))
    return Plugin(candidate, cls, implemented, model, workers), instance


def _constructed(candidate: Candidate, cls: type) -> object:
    def remedy(_error: BaseException) -> str:
        return f"its class must be made without arguments: {report_to_makers(candidate)}"

    doing = f"constructing {candidate.value!r}"
    with guarded(candidate, Stage.CONSTRUCT, doing=doing, remedy=remedy):
        return cls()


def _register(
    manager: pluggy.PluginManager,
    instance: object,
    found: tuple[hooks.Implementation, ...],
    *,
    candidate: Candidate,
    role: Role,
) -> None:
    # Before pluggy's own checks: their messages name neither the plugin's file nor a remedy.
    hooks.check_known(found, role)
    hooks.check_unwrapped(found)
    hooks.check_arguments(manager, found)
    manager.register(instance, candidate.name)
    manager.check_pending()


def _validate(instance: object, found: tuple[hooks.Implementation, ...], role: Role) -> None:
    hooks.check_role(found, role)
    hooks.check_marked(instance, found, role)
    hooks.check_complete(found, role)
    hooks.check_async(found)


def _settings_model(result: object) -> type[BaseModel] | None:
    if result is None:
        return None
    if not isinstance(result, type) or not issubclass(result, BaseModel):
        raise Fault(
            f"'kcm_settings' returned {result!r}, no subclass of pydantic's BaseModel",
            "return the model class itself, or leave 'kcm_settings' out",
        )
    # Raises when annotations of the model cannot be resolved; does nothing when they are.
    result.model_rebuild()
    return result
