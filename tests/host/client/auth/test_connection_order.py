"""Where the connection comes from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from host.client.conftest import Authority, WriteKubeconfig

from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem

Pod = tuple[Path, dict[str, str]]


@pytest.fixture
def token_config(kubeconfig: WriteKubeconfig) -> Callable[[str], Path]:
    """Writes a kubeconfig whose server tells it apart from others."""

    def write(name: str) -> Path:
        server = f"http://127.0.0.1:1/{name.replace('/', '-').strip('.-')}"
        return kubeconfig(cluster={"server": server}, user={"token": "t"}, name=name)

    return write


@pytest.fixture
def pod(tmp_path: Path, authority: Authority) -> Pod:
    """The files of a pod's service account and the variables of its environment."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "ca.crt").write_text(authority.pem)
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return folder, environ


def test_a_named_kubeconfig_comes_first(
    token_config: Callable[[str], Path], pod: Pod, tmp_path: Path
) -> None:
    """The kubeconfig given by name wins over $KUBECONFIG and the pod."""
    folder, environ = pod
    environ = {**environ, "KUBECONFIG": str(token_config("variable")), "HOME": str(tmp_path)}
    connection = connect(str(token_config("named")), environ=environ, service_account=folder)
    assert connection.base_url.endswith("/named")
    assert connection.origin == f"kubeconfig '{tmp_path / 'named'}' (context 'here')"


def test_the_variable_comes_before_the_pod(token_config: Callable[[str], Path], pod: Pod) -> None:
    """$KUBECONFIG wins over the service account."""
    folder, environ = pod
    environ = {**environ, "KUBECONFIG": str(token_config("variable"))}
    assert connect(None, environ=environ, service_account=folder).base_url.endswith("/variable")


async def test_a_pod_uses_its_service_account(
    token_config: Callable[[str], Path], pod: Pod, tmp_path: Path
) -> None:
    """In a pod the service account is used even when there is a ~/.kube/config."""
    folder, environ = pod
    token_config(".kube/config")
    connection = connect(None, environ={**environ, "HOME": str(tmp_path)}, service_account=folder)
    assert connection.base_url == "https://127.0.0.1:443"
    assert connection.origin == "in-cluster service account"
    assert await connection.credentials.headers() == {"Authorization": "Bearer pod-token"}


def test_a_pod_without_a_token_falls_back_to_home(
    token_config: Callable[[str], Path], pod: Pod, tmp_path: Path
) -> None:
    """Without a mounted token the pod's variables alone do not count."""
    folder, environ = pod
    (folder / "token").unlink()
    token_config(".kube/config")
    connection = connect(None, environ={**environ, "HOME": str(tmp_path)}, service_account=folder)
    assert connection.base_url.endswith("/kube-config")


def test_a_home_folder_is_expanded(token_config: Callable[[str], Path], tmp_path: Path) -> None:
    """~ in a named path is the HOME of the environment."""
    token_config("conf/mine")
    connection = connect("~/conf/mine", environ={"HOME": str(tmp_path)})
    assert connection.base_url.endswith("/conf-mine")


def test_a_pod_without_a_token_is_told_so(pod: Pod, tmp_path: Path) -> None:
    """A pod that mounts no token is not called "no pod", and the remedy is the pod's (F-88)."""
    folder, environ = pod
    (folder / "token").unlink()
    with pytest.raises(ConnectionProblem) as caught:
        connect(None, environ={**environ, "HOME": str(tmp_path)}, service_account=folder)
    message = str(caught.value)
    assert f"this pod has no service account token in '{folder}'" in message
    assert "automountServiceAccountToken" in message
    assert "no pod," not in message


@pytest.mark.parametrize("broken", ["token", "ca.crt"])
def test_an_incomplete_service_account_is_named(pod: Pod, broken: str) -> None:
    """An empty token or authority file in the pod is an error with its folder."""
    folder, environ = pod
    (folder / broken).write_text("")
    with pytest.raises(ConnectionProblem, match=str(folder)) as caught:
        connect(None, environ=environ, service_account=folder)
    assert caught.value.exit_code == 2


def test_nothing_anywhere_lists_what_was_tried(tmp_path: Path) -> None:
    """Without any source the error names all four and what to do."""
    with pytest.raises(ConnectionProblem, match="--kubeconfig") as caught:
        connect(None, environ={"HOME": str(tmp_path)}, service_account=tmp_path)
    assert str(tmp_path / ".kube" / "config") in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_variable_that_names_only_missing_files(tmp_path: Path) -> None:
    """$KUBECONFIG with no existing file is an error, not a reason to look elsewhere."""
    missing = str(tmp_path / "missing")
    with pytest.raises(ConnectionProblem, match="KUBECONFIG exists"):
        connect(None, environ={"KUBECONFIG": missing, "HOME": str(tmp_path)})


def test_a_missing_named_file(tmp_path: Path) -> None:
    """A named kubeconfig that is missing is an error that names it."""
    with pytest.raises(ConnectionProblem, match=r"missing' cannot be read: No such file"):
        connect(str(tmp_path / "missing"), environ={})
