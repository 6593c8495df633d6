"""An empty store of pods, and an empty feed."""

import pytest
from host.store.stream_lines import POD, Pod

from kcm_host.store.feed import Feed
from kcm_host.store.store import Store


@pytest.fixture
def store() -> Store[Pod]:
    """A store of pods."""
    return Store(POD)


@pytest.fixture
def feed() -> Feed:
    """A feed of pods that nobody follows yet."""
    return Feed(POD)
