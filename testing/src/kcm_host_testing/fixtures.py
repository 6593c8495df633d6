"""Pytest fixtures of the kit: servers that start when a test asks for them, and end with it."""
# ruff: noqa: PLC0415 - every pytest run imports this module; most of them start no server

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcm_host_testing.api_server import ApiServer
    from kcm_host_testing.etcd import Etcd
    from kcm_host_testing.kubectl import Kubectl
    from kcm_host_testing.proxy import FaultProxy


@pytest.fixture(scope="session")
def kube_binaries(pytestconfig: pytest.Config) -> Path:
    """The folder of the servers' binaries; built here when missing, with the progress shown."""
    from kcm_host_testing import build, release

    if release.missing_binaries():
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                build.ensure()
        except build.BuildError as error:
            pytest.fail(f"the servers cannot be built: {error}", pytrace=False)
    return release.binaries_folder()


@pytest.fixture(scope="session")
def etcd(kube_binaries: Path) -> "Iterator[Etcd]":
    """One etcd for the whole session."""
    from kcm_host_testing.etcd import Etcd

    with Etcd(binaries=kube_binaries) as running:
        yield running


@pytest.fixture(scope="session")
def api_server(etcd: "Etcd", kube_binaries: Path) -> "Iterator[ApiServer]":
    """
    One API server for the whole session, with its audit log on.

    Never stop or pause it, and never count what other tests may create: take `own_api_server`.
    """
    from kcm_host_testing.api_server import ApiServer

    with ApiServer(etcd, binaries=kube_binaries) as running:
        yield running


@pytest.fixture
def own_api_server(etcd: "Etcd", kube_binaries: Path) -> "Iterator[Callable[..., ApiServer]]":
    """
    Starts an API server that belongs to this test alone: `own_api_server(feature_gates={...})`.

    Takes what `ApiServer` takes; 2-3 s and 300 MB each. All of them end with the test.
    """
    from kcm_host_testing.api_server import ApiServer

    with ExitStack() as running:
        yield lambda **options: running.enter_context(
            ApiServer(etcd, binaries=kube_binaries, **options)
        )


@pytest.fixture
def namespace(api_server: "ApiServer") -> Iterator[str]:
    """
    The name of a fresh namespace on `api_server`, deleted at the end without waiting.

    No namespace controller runs, so it stays `Terminating` and its objects stay too.
    """
    from kubernetes import client

    core: Any = client.CoreV1Api(api_server.client())
    name = f"test-{secrets.token_hex(4)}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


@pytest.fixture
def fault_proxy(api_server: "ApiServer") -> "Iterator[FaultProxy]":
    """A proxy of faults before `api_server`, without any fault yet."""
    from kcm_host_testing.proxy import FaultProxy

    with FaultProxy(api_server) as running:
        yield running


@pytest.fixture
def kubectl(api_server: "ApiServer", kube_binaries: Path) -> "Kubectl":
    """Runs kubectl as admin of `api_server`: `kubectl("get", "nodes")` gives its output."""
    from kcm_host_testing.kubectl import Kubectl

    return Kubectl(api_server.kubeconfig(), binaries=kube_binaries)
