"""Where a kind's objects are found on the server."""

from urllib.parse import quote

from kcm_host.api.kinds import Key, Kind


def collection(kind: Kind, namespace: str = "") -> str:
    """Give the path of all objects of a kind, or of those in one namespace."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{kind.resource}"


def item(kind: Kind, key: Key, subresource: str = "") -> str:
    """Give the path of one object, or of one of its subresources."""
    path = f"{collection(kind, key.namespace)}/{quote(key.name, safe='')}"
    return f"{path}/{subresource}" if subresource else path
