"""A pytest plugin that leaves out every test that needs a server."""

import pytest

SERVERS = frozenset({"kube_binaries", "etcd", "api_server", "own_api_server", "fault_proxy"})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect them."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        needs = SERVERS.intersection(getattr(item, "fixturenames", ()))
        (left_out if needs else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
