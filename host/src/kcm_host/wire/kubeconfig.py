"""Reads kubeconfig files and picks the cluster and the user that the current context names."""

import base64
import binascii
import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kcm_host.wire.problem import ConnectionProblem
from kcm_host.wire.stanzas import Cluster, Context, File, User, typed, without_empty


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    One cluster and one user, type-checked, their file names absolute.

    `cluster_raw` and `user_raw` hold the same as YAML data, which is what the official loader
    takes. `persist` writes a token that an auth provider renewed back into its kubeconfig.
    """

    origin: str
    cluster_place: str
    user_place: str
    user_file: Path
    cluster: Cluster
    user: User
    cluster_raw: Mapping[str, Any] = field(repr=False)
    user_raw: Mapping[str, Any] = field(repr=False)
    persist: Callable[[Mapping[str, Any]], None] = field(repr=False)


def choose(paths: Sequence[Path]) -> Chosen:
    """
    Merge the files and follow the current context.

    The first file that defines a name, or sets the current context, wins. Relative file names
    are relative to the kubeconfig that holds them. Raises ConnectionProblem (exit code 2).
    """
    merger = _merged(paths)
    listed = "', '".join(str(path) for path in paths)
    name = _current_context(merger, listed)
    context, context_path = _entry(
        merger, "context", name, wanted_by=f"current-context in {listed}"
    )
    place = f"context '{name}' in '{context_path}'"
    names = typed(context, Context, place=place)
    for kind, value in (("cluster", names.cluster), ("user", names.user)):
        if not value:
            raise ConnectionProblem(f"{place} names no {kind}; add '{kind}: NAME' to it")
    cluster_raw, cluster_path = _entry(merger, "cluster", names.cluster, wanted_by=place)
    user_raw, user_path = _entry(merger, "user", names.user, wanted_by=place)
    cluster_place = f"cluster '{names.cluster}' in '{cluster_path}'"
    user_place = f"user '{names.user}' in '{user_path}'"
    cluster = _prepared(cluster_raw, CLUSTER_FILES, cluster_path, cluster_place, Cluster)
    user = _prepared(user_raw, USER_FILES, user_path, user_place, User)
    chosen = Chosen(
        origin=f"kubeconfig '{context_path}' (context '{name}')",
        cluster_place=cluster_place,
        user_place=user_place,
        user_file=user_path,
        cluster=typed(cluster, Cluster, place=cluster_place),
        user=typed(user, User, place=user_place),
        cluster_raw=cluster,
        user_raw=user,
        persist=lambda renewed: _persist(merger, user_raw, renewed),
    )
    _refuse_contradictions(chosen)
    return chosen


CLUSTER_FILES = ("certificate-authority",)
USER_FILES = ("client-certificate", "client-key", "tokenFile")


def _merged(paths: Sequence[Path]) -> Any:
    # The package is imported where it is needed: it costs 70 ms and 9 MB.
    official = importlib.import_module("kubernetes.config.kube_config")
    merger = official.KubeConfigMerger("")
    for path in paths:
        _load(merger, path)
    # What its constructor does for paths that hold no ':'.
    merger.paths = [str(path) for path in paths]
    merger.config_saved = copy.deepcopy(merger.config_files)
    return merger


def _load(merger: Any, path: Path) -> None:
    try:
        merger.load_config(str(path))
    except OSError as error:
        raise ConnectionProblem(
            f"kubeconfig '{path}' cannot be read: {error.strerror}; name a readable file with "
            f"--kubeconfig or $KUBECONFIG"
        ) from None
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may hold a token.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConnectionProblem(
            f"kubeconfig '{path}' is not YAML{where}: {getattr(error, 'problem', None) or 'syntax'}"
            f"; correct the file"
        ) from None
    except Exception as error:  # noqa: BLE001 - the loader fails in any way on a strange shape
        empty = " is empty" if path.stat().st_size == 0 else " is not a kubeconfig"
        raise ConnectionProblem(
            f"kubeconfig '{path}'{empty} ({type(error).__name__}); it needs the lists 'clusters', "
            f"'users' and 'contexts', each entry with a 'name'"
        ) from None
    typed(merger.config_files[str(path)], File, place=f"kubeconfig '{path}'")


def _current_context(merger: Any, listed: str) -> str:
    # The official merger lets the last file win, everybody else the first.
    for config in merger.config_files.values():
        if name := config.get("current-context"):
            return str(name)
    raise ConnectionProblem(
        f"kubeconfig '{listed}' has no current-context; set one with "
        f"'kubectl config use-context NAME'"
    )


def _entry(merger: Any, kind: str, name: str, *, wanted_by: str) -> tuple[Any, Path]:
    entries = merger.config.value[f"{kind}s"]
    for entry in entries:
        if entry.value["name"] == name:
            return entry.value.get(kind) or {}, Path(entry.path)
    known = ", ".join(f"'{entry.value['name']}'" for entry in entries) or "none"
    raise ConnectionProblem(
        f"{wanted_by} names {kind} '{name}', which does not exist; there are: {known}"
    )


def _prepared(
    raw: Any, files: Sequence[str], kubeconfig: Path, place: str, model: type[Any]
) -> dict[str, Any]:
    typed(raw, model, place=place)
    stanza: dict[str, Any] = without_empty(raw)
    for key in files:
        if key in stanza and f"{key}-data" not in stanza:
            stanza[key] = str(_readable(kubeconfig.absolute().parent / stanza[key], key, place))
        if data := stanza.get(f"{key}-data"):
            _decodable(data, f"{key}-data", place)
    return stanza


def _readable(path: Path, key: str, place: str) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise ConnectionProblem(
            f"{key} of {place} cannot be read: {error.strerror} '{path}'; restore the file or "
            f"correct its name"
        ) from None


def _decodable(data: str, key: str, place: str) -> None:
    try:
        base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ConnectionProblem(
            f"{key} of {place} is not base64; store the PEM text encoded with base64"
        ) from None


def _refuse_contradictions(chosen: Chosen) -> None:
    cluster, user = chosen.cluster, chosen.user
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        raise ConnectionProblem(
            f"{chosen.cluster_place} sets insecure-skip-tls-verify and a certificate authority; "
            f"remove one of them"
        )
    certificate = user.client_certificate or user.client_certificate_data
    if bool(certificate) != bool(user.client_key or user.client_key_data):
        raise ConnectionProblem(
            f"{chosen.user_place} has only one of client-certificate and client-key; add the other"
        )
    if user.impersonate or user.impersonate_uid or user.impersonate_groups:
        raise ConnectionProblem(
            f"{chosen.user_place} asks to impersonate somebody ('as'), which is not supported; "
            f"use credentials of that identity"
        )


def _persist(merger: Any, user: Any, renewed: Mapping[str, Any]) -> None:
    provider = user["auth-provider"]
    provider["config"] = {**(provider.get("config") or {}), **renewed}
    merger.save_changes()
