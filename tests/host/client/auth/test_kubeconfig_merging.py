"""Several kubeconfigs as one."""

from pathlib import Path
from typing import Any

import yaml

from kcm_host.client.auth.connection import connect


def write(path: Path, **content: Any) -> str:
    """Writes a kubeconfig and gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **content}))
    return str(path)


def cluster(name: str, server: str) -> dict[str, Any]:
    """A cluster entry."""
    return {"name": name, "cluster": {"server": server}}


def context(name: str, cluster_name: str = "c", user_name: str = "u") -> dict[str, Any]:
    """A context entry."""
    return {"name": name, "context": {"cluster": cluster_name, "user": user_name}}


async def test_parts_come_from_different_files(tmp_path: Path) -> None:
    """Cluster, user and context may stand in different files; missing files are skipped."""
    first = write(tmp_path / "a", clusters=[cluster("c", "http://127.0.0.1:1")])
    second = write(tmp_path / "b", users=[{"name": "u", "user": {"token": "split"}}])
    third = write(tmp_path / "c", contexts=[context("x")], **{"current-context": "x"})
    listed = ":".join([first, second, str(tmp_path / "missing"), third])
    connection = connect(None, environ={"KUBECONFIG": listed})
    assert connection.base_url == "http://127.0.0.1:1"
    assert await connection.credentials.headers() == {"Authorization": "Bearer split"}


def test_the_first_file_wins(tmp_path: Path) -> None:
    """The first definition of a name and the first current-context count."""
    users = [{"name": "u", "user": {"token": "t"}}]
    contexts = [context("x"), context("y", "other")]
    first = write(
        tmp_path / "a",
        clusters=[cluster("c", "http://127.0.0.1:1")],
        contexts=contexts,
        users=users,
        **{"current-context": "x"},
    )
    second = write(
        tmp_path / "b",
        clusters=[cluster("c", "http://127.0.0.1:2"), cluster("other", "http://127.0.0.1:3")],
        **{"current-context": "y"},
    )
    connection = connect(None, environ={"KUBECONFIG": f"{first}:{second}"})
    assert connection.base_url == "http://127.0.0.1:1"


async def test_relative_names_belong_to_their_own_file(tmp_path: Path) -> None:
    """A user's file is looked up beside the kubeconfig of the user, not of the cluster."""
    first = write(tmp_path / "one" / "a", clusters=[cluster("c", "http://127.0.0.1:1")])
    second = write(
        tmp_path / "two" / "b",
        users=[{"name": "u", "user": {"tokenFile": "secret/token"}}],
        contexts=[context("x")],
        **{"current-context": "x"},
    )
    (tmp_path / "two" / "secret").mkdir()
    (tmp_path / "two" / "secret" / "token").write_text("beside\n")
    connection = connect(None, environ={"KUBECONFIG": f"{first}:{second}"})
    assert await connection.credentials.headers() == {"Authorization": "Bearer beside"}


def test_a_colon_in_a_named_path_is_part_of_its_name(tmp_path: Path) -> None:
    """Only $KUBECONFIG is a list; a path given by name may hold a colon."""
    path = write(
        tmp_path / "odd:name",
        clusters=[cluster("c", "http://127.0.0.1:1/")],
        users=[{"name": "u", "user": {"token": "t"}}],
        contexts=[context("x")],
        **{"current-context": "x"},
    )
    assert connect(path, environ={}).base_url == "http://127.0.0.1:1"
