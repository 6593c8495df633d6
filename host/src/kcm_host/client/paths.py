"""URL paths of collections and objects."""

from urllib.parse import quote

from kcm_host.api.errors import InvalidKey
from kcm_host.api.kinds import Key, Kind

#: Names that the API server refuses as a path segment.
_REFUSED_SEGMENTS = ("", ".", "..")
_REFUSED_CHARACTERS = ("/", "%")
_SEGMENT_RULE = "it is not empty, '.' or '..', and has no '/' or '%'"


def collection(kind: Kind, namespace: str = "") -> str:
    """Return the path of all objects of a kind, or of those in one namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{kind.resource}"


def item(kind: Kind, key: Key, subresource: str = "") -> str:
    """Return the path of one object or subresource; raise `InvalidKey` for an unusable key."""
    check_key(kind, key)
    path = f"{collection(kind, key.namespace)}/{quote(key.name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def check_key(kind: Kind, key: Key) -> None:
    """Raise `InvalidKey` unless `key` can be name and namespace of one object of `kind`."""
    problem = _problem(kind, key)
    if problem:
        # As repr: str(key) would not show an empty name or a slash.
        text = f"no request for '{kind}' name={key.name!r} in {key.namespace!r}: {problem}"
        raise InvalidKey(text)


def _problem(kind: Kind, key: Key) -> str:
    if not _is_segment(key.name):
        return f"that is no name of a {kind.name}; {_SEGMENT_RULE}"
    if not kind.namespaced:
        no_namespace = f"a {kind.name} has no namespace; leave 'namespace' out"
        return no_namespace if key.namespace else ""
    if not key.namespace:
        return f"a {kind.name} is in a namespace; give it as namespace='...'"
    return "" if _is_segment(key.namespace) else f"that is no namespace; {_SEGMENT_RULE}"


def _is_segment(text: str) -> bool:
    return text not in _REFUSED_SEGMENTS and not any(each in text for each in _REFUSED_CHARACTERS)
