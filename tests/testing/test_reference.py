"""The reference works on the kit's servers, and kubectl shows it."""

import json
import os
from collections.abc import Callable

import pytest

from kcm_host_testing.api_server import ApiServer
from kcm_host_testing.kubectl import Kubectl, KubectlError
from kcm_host_testing.reference import Reference
from kcm_host_testing.usage import usage_of

NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'


def test_the_reference_annotates_a_node(own_api_server: Callable[..., ApiServer]) -> None:
    """With `ttl` alone it writes the annotation as its own service account, and is measurable."""
    server = own_api_server()
    kubectl = Kubectl(server.kubeconfig())
    with Reference(server, ["ttl"]) as reference:
        kubectl("create", "-f", "-", stdin=NODE)
        write = server.audit.wait_for(lambda e: e.resource == "nodes" and e.verb == "patch")
        used = reference.usage()
        assert reference.running
        assert "Starting TTL controller" in reference.log.read_text()
    assert write.user == "system:serviceaccount:kube-system:ttl-controller"
    assert used.cpu_seconds > 0
    assert 10_000_000 < used.private_bytes <= used.rss_bytes <= used.peak_rss_bytes
    node = json.loads(kubectl("get", "node", "n1", "-o", "json"))
    assert node["metadata"]["annotations"] == {"node.alpha.kubernetes.io/ttl": "0"}


def test_kubectl_runs_as_the_user_of_its_kubeconfig(api_server: ApiServer) -> None:
    """A call with a plain user's kubeconfig fails, and the error holds the server's reason."""
    with pytest.raises(KubectlError, match=r"'kubectl get nodes' ended with code 1.*\"carol\""):
        Kubectl(api_server.kubeconfig("carol"))("get", "nodes")


def test_kubectl_that_hangs_is_given_up(api_server: ApiServer) -> None:
    """A command that never ends, such as a watch, is an error at its time."""
    with pytest.raises(KubectlError, match=r"did not end within 0\.5 s"):
        Kubectl(api_server.kubeconfig())("get", "namespaces", "-w", timeout_seconds=0.5)


def test_usage_is_that_of_the_process() -> None:
    """Usage of this process grows with its memory; of an unknown process there is none."""
    before = usage_of(os.getpid())
    ballast = bytearray(os.urandom(64 * 2**20))
    after = usage_of(os.getpid())
    assert after.private_bytes - before.private_bytes > 0.9 * len(ballast)
    assert after.cpu_seconds >= before.cpu_seconds
    with pytest.raises(ProcessLookupError, match="it has ended"):
        usage_of(2**22 + 1)
