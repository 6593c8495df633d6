"""Stores of a controller's watches, for a view without watches."""

from collections.abc import Mapping
from typing import Any

from kcm_host.api import Kind
from kcm_host.informer.cache_view import Stores
from kcm_host.informer.store import Store


def stores_of(owner: str, stores: Mapping[tuple[Kind, type[Any]], Store[Any]]) -> Stores:
    """Return these stores, each under the text of its kind and model; `owner` has the indexes."""
    found = Stores()
    for (kind, model), store in stores.items():
        found.add(f"{kind} as {model.__name__}", model, store, index_owner=owner)
    return found
