"""From an entry point to the class it names."""

import difflib
import importlib
from types import ModuleType

from kcm_host.loading.finder import Candidate
from kcm_host.loading.quarantine import Fault, Stage, guarded, report_to_makers


def plugin_class(candidate: Candidate) -> type:
    """Import the plugin's module and give its class; raises `BrokenPlugin`."""
    module = _module(candidate)
    with guarded(candidate, Stage.ATTRIBUTE, doing=f"looking up {candidate.value!r}"):
        return _class(candidate, module)


def _module(candidate: Candidate) -> ModuleType:
    def remedy(error: BaseException) -> str:
        return _import_remedy(candidate, error)

    doing = f"importing {candidate.module!r}"
    with guarded(candidate, Stage.IMPORT, doing=doing, remedy=remedy):
        try:
            return importlib.import_module(candidate.module)
        except ModuleNotFoundError as error:
            if not _is_within(candidate.module, error.name):
                raise
            raise Fault(
                f"module {error.name!r} does not exist, but the entry point names it",
                f"reinstall {candidate.distribution!r}; if that does not help, "
                f"{_correct_entry_point(candidate)}",
            ) from error


def _import_remedy(candidate: Candidate, error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"a module must not end the program: {report_to_makers(candidate)}"
    if isinstance(error, ModuleNotFoundError):
        return f"reinstall {candidate.distribution!r} together with what it depends on"
    return report_to_makers(candidate)


def _is_within(module: str, missing: str | None) -> bool:
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _class(candidate: Candidate, module: ModuleType) -> type:
    found: object = module
    for part in filter(None, candidate.attribute.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise Fault(
                f"module {module.__name__!r} has no {candidate.attribute!r}{_hint(part, found)}",
                _correct_entry_point(candidate),
            ) from error
    if not isinstance(found, type):
        raise Fault(
            f"{candidate.value!r} is a {type(found).__name__}, not a class",
            _correct_entry_point(candidate) + " so that it names the plugin's class",
        )
    return found


def _hint(part: str, owner: object) -> str:
    close = difflib.get_close_matches(part, dir(owner), n=1)
    return f" (it has {close[0]!r})" if close else ""


def _correct_entry_point(candidate: Candidate) -> str:
    entry = f'{candidate.name} = "{candidate.value}"'
    return f"correct the entry point '{entry}' in the pyproject.toml of {candidate.distribution!r}"
