"""
JSON patches that add or remove one finalizer of one object.

Each tests the uid and all finalizers as they were read, so that the API server refuses it for
another object of the same name, or when somebody has changed the finalizers since. That needs no
resourceVersion, which caches of some fields do not have, and other changes do not disturb it.
"""

from typing import Any

from kcm_host.api.writes import FinalizerMetadata

Operations = list[dict[str, Any]]


def addition(metadata: FinalizerMetadata, finalizer: str) -> Operations:
    """Return the operations that add a finalizer, none if the object has it."""
    present = metadata.finalizers or ()
    if finalizer in present:
        return []
    # Written as a whole, because an object without finalizers has no list to append to.
    return [*_tests(metadata), _operation("add", "finalizers", [*present, finalizer])]


def removal(metadata: FinalizerMetadata, finalizer: str) -> Operations:
    """Return the operations that remove a finalizer, none if the object does not have it."""
    present = metadata.finalizers or ()
    if finalizer not in present:
        return []
    remaining = [one for one in present if one != finalizer]
    return [*_tests(metadata), _operation("replace", "finalizers", remaining)]


def _tests(metadata: FinalizerMetadata) -> Operations:
    if not metadata.uid:
        raise ValueError(
            f"the metadata of '{metadata.name}' has no uid; declare 'uid: str' in its model, so "
            "that no other object of this name is changed"
        )
    # The API server takes null for a field that does not exist.
    finalizers = list(metadata.finalizers) if metadata.finalizers else None
    return [_operation("test", "uid", metadata.uid), _operation("test", "finalizers", finalizers)]


def _operation(name: str, field: str, value: object) -> dict[str, Any]:
    return {"op": name, "path": f"/metadata/{field}", "value": value}
