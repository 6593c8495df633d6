"""
What patches and applies make of an object, as far as that is right without the schema of its kind.

A list that is merged item by item on a server is known for a few fields (`finalizers`,
`ownerReferences`, `conditions`). For every other list `HarnessError` is raised, unless the result
is the same for a list that is merged and for one that is replaced.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from kcm_host_testing.harness.errors import Refused, needs_server

Object = dict[str, Any]
Path = tuple[str, ...]
#: Paths and values of the fields that one manager has applied.
Leaves = dict[Path, Any]

#: An item of the list is distinguished by itself, or the list is replaced as a whole.
SET, ATOMIC = "", "atomic"
#: Lists of all kinds, and the field that distinguishes their items.
METADATA_LISTS: dict[Path, str] = {
    ("metadata", "finalizers"): SET,
    ("metadata", "ownerReferences"): "uid",
}
#: Lists of kinds of Kubernetes itself that no two of its kinds have in different forms.
BUILTIN_LISTS: dict[Path, str] = METADATA_LISTS | {
    ("status", "resourceClaimStatuses"): "name",
    ("rules",): ATOMIC,
    ("aggregationRule", "clusterRoleSelectors"): ATOMIC,
}
CONDITIONS: dict[Path, str] = {("status", "conditions"): "type"}
#: Groups whose conditions are merged by type; those of a Job are, but an apply replaces them.
CONDITIONS_MERGED = frozenset(
    {"", "apps", "autoscaling", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "policy"}
)
CONDITIONS_MERGED_BY_PATCH = CONDITIONS_MERGED | {"batch"}
#: Groups of Kubernetes itself with a dot in their names; other groups with a dot are extensions.
BUILTIN_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
DELETE_FROM = "$deleteFromPrimitiveList/"
MISSING = object()


def is_builtin(group: str) -> bool:
    """Return whether a group belongs to Kubernetes itself and not to an extension."""
    return "." not in group or group in BUILTIN_GROUPS


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` changed by a merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(target: Object, operations: Sequence[Mapping[str, Any]]) -> Object:
    """Return `target` changed by a JSON patch (RFC 6902); raise `Refused` if it does not fit."""
    box = {"": deepcopy(target)}
    for operation in operations:
        try:
            _operate(box, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            text = "the server rejected our request due to an error in our request"
            raise Refused(422, "Invalid", f"{text}: {operation!r}: {error}") from error
    return box[""]


def _operate(box: dict[str, Any], operation: Mapping[str, Any]) -> None:
    path = operation["path"].split("/")
    match operation["op"]:
        case "add":
            _insert(box, path, deepcopy(operation["value"]))
        case "remove":
            _remove(box, path)
        case "replace":
            _remove(box, path)
            _insert(box, path, deepcopy(operation["value"]))
        case "move":
            _insert(box, path, _remove(box, operation["from"].split("/")))
        case "copy":
            _insert(box, path, deepcopy(_find(box, operation["from"].split("/"))))
        case "test":
            # A server takes null for a field that does not exist.
            holder = _find(box, path[:-1])
            is_missing = isinstance(holder, dict) and _index(holder, path[-1]) not in holder
            if (None if is_missing else _find(box, path)) != operation["value"]:
                raise ValueError("the test failed")
        case other:
            raise ValueError(f"no operation: {other}")


def _index(holder: Any, step: str) -> Any:
    if not isinstance(holder, list):
        return step.replace("~1", "/").replace("~0", "~")
    if not step.isdecimal():
        raise IndexError(step)
    return int(step)


def _find(box: Any, path: Sequence[str]) -> Any:
    for step in path:
        box = box[_index(box, step)]
    return box


def _insert(box: Any, path: Sequence[str], value: Any) -> None:
    holder = _find(box, path[:-1])
    if not isinstance(holder, list):
        holder[_index(holder, path[-1])] = value
        return
    at = len(holder) if path[-1] == "-" else _index(holder, path[-1])
    if at > len(holder):
        raise IndexError(path[-1])
    holder.insert(at, value)


def _remove(box: Any, path: Sequence[str]) -> Any:
    holder = _find(box, path[:-1])
    return holder.pop(_index(holder, path[-1]))


class _Keyed(dict[str, Any]):
    """A list that is merged item by item: its items by what distinguishes them."""


def _tree(value: Any, forms: Mapping[Path, str], path: Path = ()) -> Any:
    """Return a value with the lists of `forms` as `_Keyed`."""
    if isinstance(value, Mapping):
        return {name: _tree(each, forms, (*path, name)) for name, each in value.items()}
    form = forms.get(path, ATOMIC)
    if not isinstance(value, list) or form == ATOMIC:
        return deepcopy(value)
    if form == SET:
        return _Keyed({item: item for item in value})
    if any("$patch" in item or form not in item for item in value):
        raise needs_server(f"an item of {'.'.join(path)} without {form!r}, or with '$patch'")
    return _Keyed({item[form]: _tree(item, {}) for item in value})


def _plain(tree: Any) -> Any:
    if isinstance(tree, _Keyed):
        return [_plain(item) for item in tree.values()]
    if isinstance(tree, dict):
        return {name: _plain(each) for name, each in tree.items()}
    return tree


def _merge(
    target: Object, patch: Mapping[str, Any], is_replaceable: Callable[[Path, Any], bool]
) -> None:
    def merge(target: Object, patch: Mapping[str, Any], above: Path) -> None:
        for name, value in patch.items():
            path, present = (*above, name), target.get(name)
            if name.startswith("$"):
                raise needs_server(f"{name!r} in a patch of {'.'.join(above) or 'an object'}")
            if value is None:
                target.pop(name, None)
            elif isinstance(value, dict):
                if not isinstance(present, dict):
                    target[name] = present = type(value)()
                merge(present, value, path)
            elif isinstance(value, list) and not (
                present in (None, [], value) or is_replaceable(path, present)
            ):
                raise needs_server(
                    f"whether the list {'.'.join(path)} is merged or replaced depends on the schema"
                )
            else:
                target[name] = value

    merge(target, patch, ())


def strategic_patch(target: Object, patch: Mapping[str, Any], *, group: str) -> Object:
    """Return `target`, of a group of Kubernetes itself, changed by a strategic merge patch."""
    forms = BUILTIN_LISTS | (CONDITIONS if group in CONDITIONS_MERGED_BY_PATCH else {})
    tree = _tree(target, forms)
    fields = _tree(_without_deletions(tree, patch, ()), forms)
    _merge(tree, fields, lambda path, _present: forms.get(path) == ATOMIC)
    result: Object = _plain(tree)
    return result


def _without_deletions(tree: Any, patch: Mapping[str, Any], above: Path) -> Object:
    """Return the patch without its deletions from sets, which are done in `tree`."""
    result = {}
    for name, value in patch.items():
        field = name.removeprefix(DELETE_FROM)
        holder = tree.get(field) if isinstance(tree, dict) else None
        if field != name:
            if BUILTIN_LISTS.get((*above, field)) != SET:
                raise needs_server(f"{name!r} in a strategic merge patch")
            for item in value:
                (holder or {}).pop(item, None)
        elif isinstance(value, Mapping):
            result[name] = _without_deletions(holder, value, (*above, name))
        else:
            result[name] = value
    return result


class Appliers:
    """The fields that each field manager has applied to one object."""

    def __init__(self, group: str) -> None:
        self._forms = BUILTIN_LISTS if is_builtin(group) else METADATA_LISTS
        if group in CONDITIONS_MERGED:
            self._forms = self._forms | CONDITIONS
        self._applied: dict[str, Leaves] = {}

    def apply(self, target: Object, body: Object, *, manager: str, force: bool) -> Object:
        """
        Return `target` changed by an apply; raise `Refused` for a field of another manager.

        Fields that the manager applied before and that `body` lacks are removed, unless another
        manager has applied them too or their values have changed since.
        """
        tree, fields = _tree(target, self._forms), _tree(body, self._forms)
        before, now = self._applied.get(manager, {}), dict(_leaves(fields))
        others = [each for name, each in self._applied.items() if name != manager]
        if not force:
            _check_conflicts(tree, now, before, others=others)
        for path, value in before.items():
            is_shared = any(path in each for each in others)
            if path not in now and not is_shared and _value_at(tree, path) == value:
                _prune(tree, path)
        _merge(
            tree,
            fields,
            lambda path, present: self._forms.get(path) == ATOMIC or before.get(path) == present,
        )
        for each in others:
            for path in [path for path in each if now.get(path, each[path]) != each[path]]:
                del each[path]
        self._applied[manager] = now
        result: Object = _plain(tree)
        return result


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(tree, dict) and (tree or not path):
        for name, value in tree.items():
            yield from _leaves(value, (*path, name))
    elif tree is None:
        raise needs_server(f"null for {'.'.join(path)} in an apply")
    else:
        yield path, tree


def _value_at(tree: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return MISSING
        tree = tree[name]
    return tree


def _prune(tree: Object, path: Path) -> None:
    """Remove a field, and the maps above it that are empty then."""
    holder = _value_at(tree, path[:-1])
    del holder[path[-1]]
    if not holder and len(path) > 1:
        _prune(tree, path[:-1])


def _check_conflicts(tree: Object, now: Leaves, before: Leaves, others: Sequence[Leaves]) -> None:
    for path, value in now.items():
        present = _value_at(tree, path)
        is_map = value == {} and isinstance(present, dict)
        if present is MISSING or present == value or is_map:
            continue
        if before.get(path) != present or any(each.get(path) == present for each in others):
            text = f"Apply failed with 1 conflict: .{'.'.join(path)} has another owner"
            raise Refused(409, "Conflict", text)
