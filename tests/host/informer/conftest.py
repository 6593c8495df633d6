"""An empty store of pods, and an empty informer."""

import pytest
from host.informer.stream_lines import POD, Pod

from kcm_host.informer.shared_informer import SharedInformer
from kcm_host.informer.store import Store


@pytest.fixture
def store() -> Store[Pod]:
    """A store of pods."""
    return Store(POD, Pod)


@pytest.fixture
def informer() -> SharedInformer:
    """An informer of pods that nobody follows yet."""
    return SharedInformer(POD)
