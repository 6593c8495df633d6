"""Where a kind's objects are found on the server."""

from urllib.parse import quote

from kcm_host.api.errors import InvalidKey
from kcm_host.api.kinds import Key, Kind

#: What the API server takes for no part of a path.
_NO_SEGMENTS = ("", ".", "..")
_NOT_IN_SEGMENTS = ("/", "%")
_SEGMENT = "it is not empty, '.' or '..', and has no '/' or '%'"


def collection(kind: Kind, namespace: str = "") -> str:
    """Give the path of all objects of a kind, or of those in one namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{kind.resource}"


def item(kind: Kind, key: Key, subresource: str = "") -> str:
    """Give the path of one object or subresource; raises `InvalidKey` when it is no one's."""
    check_key(kind, key)
    path = f"{collection(kind, key.namespace)}/{quote(key.name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def check_key(kind: Kind, key: Key) -> None:
    """Raise `InvalidKey` unless `key` can be name and namespace of one object of `kind`."""
    wrong = _problem(kind, key)
    if wrong:
        # As repr: str(key) would show an empty name or a slash as if all were well.
        raise InvalidKey(f"no request for '{kind}' name={key.name!r} in {key.namespace!r}: {wrong}")


def _problem(kind: Kind, key: Key) -> str:
    if not _is_segment(key.name):
        return f"that is no name of a {kind.name}; {_SEGMENT}"
    if not kind.namespaced:
        return f"a {kind.name} has no namespace: leave it out" if key.namespace else ""
    if not key.namespace:
        return f"a {kind.name} is in a namespace: name it"
    return "" if _is_segment(key.namespace) else f"that is no namespace; {_SEGMENT}"


def _is_segment(text: str) -> bool:
    return text not in _NO_SEGMENTS and not any(one in text for one in _NOT_IN_SEGMENTS)
