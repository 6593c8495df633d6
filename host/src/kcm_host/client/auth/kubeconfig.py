"""Kubeconfigs: merging of files, type checks of sections, the current context."""

import base64
import binascii
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from kcm_host.client.auth.addresses import is_host
from kcm_host.client.errors import ConnectionProblem
from kcm_host.yaml_text import Unreadable, compose, plain_value

T = TypeVar("T")


class NamedEntry(msgspec.Struct, frozen=True):
    """The name of a cluster, user or context."""

    name: str


class Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    """The names in a kubeconfig."""

    current_context: str = ""
    clusters: list[NamedEntry] = []
    contexts: list[NamedEntry] = []
    users: list[NamedEntry] = []


class Context(msgspec.Struct, frozen=True):
    """A pair of cluster and user."""

    cluster: str = ""
    user: str = ""


class Extension(msgspec.Struct, frozen=True):
    """Free data of a cluster; one well-known name is for exec plugins."""

    name: str
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """The address of an API server, and how to verify its certificate."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[Extension] = []


class EnvVar(msgspec.Struct, frozen=True):
    """One environment variable of an exec plugin."""

    name: str
    value: str = msgspec.field(default="")


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials; its arguments may hold secrets."""

    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[EnvVar] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"

    def __repr__(self) -> str:
        return f"Exec({self.command!r})"


class AuthProviderConfig(msgspec.Struct, frozen=True):
    """A legacy credential source; its config may hold secrets."""

    name: str = ""
    config: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"AuthProvider({self.name!r})"


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """The credentials of a user; every field may hold a secret, so none is shown."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: AuthProviderConfig | None = None
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: list[str] = msgspec.field(name="as-groups", default=[])
    impersonate_extra: dict[str, list[str]] = msgspec.field(name="as-user-extra", default={})

    def __repr__(self) -> str:
        return "User(...)"


def convert_section(value: Any, model: type[T], *, place: str) -> T:
    """
    Return a section as its model; null and empty text count as absent, as in Go.

    Raise ConnectionProblem, which names the field and the types, never the value.
    """
    try:
        return msgspec.convert(without_empty(value), model)
    except msgspec.ValidationError as error:
        # Its text names the field and the types, never the value, which may be a token.
        raise ConnectionProblem(
            f"{place} is malformed: {str(error)[0].lower()}{str(error)[1:]}; correct that field "
            f"(quote values that YAML takes for numbers or dates)"
        ) from None


def without_empty(value: Any) -> Any:
    """Return a copy of YAML data without nulls and empty strings in its mappings."""
    if isinstance(value, dict):
        return {k: without_empty(v) for k, v in value.items() if v is not None and v != ""}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class ResolvedContext:
    """
    The cluster and the user of a context, type-checked, with absolute file names.

    `persist` writes a token that an auth provider has renewed to its kubeconfig.
    """

    origin: str
    cluster_place: str
    user_place: str
    user_file: Path
    cluster: Cluster
    user: User
    persist: Callable[[Mapping[str, Any]], None] = field(repr=False)


def resolve_context(paths: Sequence[Path]) -> ResolvedContext:
    """
    Merge the files; return the cluster and the user of the current context.

    The first file that defines a name, or sets the current context, takes precedence. Relative
    file names are relative to their kubeconfig. Raise ConnectionProblem (exit code 2).
    """
    # All of them are read before anything is looked up: an unreadable file could hold what takes
    # precedence.
    documents = {path: _read(path) for path in paths}
    name = _current_context(documents)
    context, context_path = _entry(
        documents, "context", name, referrer=f"current-context in {_path_list(documents)}"
    )
    place = f"context '{name}' in '{context_path}'"
    names = convert_section(context, Context, place=place)
    for kind, value in (("cluster", names.cluster), ("user", names.user)):
        if not value:
            raise ConnectionProblem(f"{place} names no {kind}; add '{kind}: NAME' to it")
    cluster_raw, cluster_path = _entry(documents, "cluster", names.cluster, referrer=place)
    user_raw, user_path = _entry(documents, "user", names.user, referrer=place)
    cluster_place = f"cluster '{names.cluster}' in '{cluster_path}'"
    user_place = f"user '{names.user}' in '{user_path}'"
    cluster = _prepare(cluster_raw, CLUSTER_FILES, cluster_path, place=cluster_place, model=Cluster)
    user = _prepare(user_raw, USER_FILES, user_path, place=user_place, model=User)
    resolved = ResolvedContext(
        origin=f"kubeconfig '{context_path}' (context '{name}')",
        cluster_place=cluster_place,
        user_place=user_place,
        user_file=user_path,
        cluster=convert_section(cluster, Cluster, place=cluster_place),
        user=convert_section(user, User, place=user_place),
        persist=lambda renewed: _persist(
            user_path, documents[user_path], user_raw, renewed=renewed
        ),
    )
    _refuse_contradictions(resolved)
    return resolved


#: Enough for a thousand clusters with embedded certificates.
MAX_FILE_BYTES = 16 << 20
#: A file of nested aliases took over 60 s, and 3,000 brackets ended in a traceback (F-24).
MAX_VALUES = 40_000
Documents = Mapping[Path, dict[str, Any]]
CLUSTER_FILES = ("certificate-authority",)
USER_FILES = ("client-certificate", "client-key", "tokenFile")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = _load(path)
    except (OSError, UnicodeDecodeError) as error:
        fact = error.strerror if isinstance(error, OSError) else "not text"
        raise ConnectionProblem(
            f"kubeconfig '{path}' cannot be read: {fact}; name a readable file with "
            f"--kubeconfig or $KUBECONFIG"
        ) from None
    except Unreadable as error:
        raise ConnectionProblem(
            f"kubeconfig '{path}' cannot be used, line {error.line}: {error.fact}; correct the file"
        ) from None
    except yaml.YAMLError as error:
        # The text of the error quotes the line, which may contain a token.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConnectionProblem(
            f"kubeconfig '{path}' is not YAML{where}: {getattr(error, 'problem', None) or 'syntax'}"
            f"; correct the file"
        ) from None
    if not isinstance(content, dict):
        fact = "is empty" if content is None else "is not a kubeconfig"
        raise ConnectionProblem(
            f"kubeconfig '{path}' {fact}; it needs the lists 'clusters', 'users' and 'contexts', "
            f"each entry with a 'name'"
        )
    convert_section(content, Kubeconfig, place=f"kubeconfig '{path}'")
    return content


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ConnectionProblem(
            f"kubeconfig '{path}' is larger than {MAX_FILE_BYTES >> 20} MiB; keep what is needed"
        )
    document = compose(data.decode("utf-8"), max_values=MAX_VALUES)
    if document is None:
        return None
    _refuse_duplicates(document, path)
    return plain_value(document)


def _refuse_duplicates(document: yaml.Node, path: Path) -> None:
    """Raise ConnectionProblem for a duplicate section: only the last one would have an effect."""
    if not isinstance(document, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, _ in document.value:
        if isinstance(key, yaml.ScalarNode) and key.value in lines:
            first, again = lines[key.value], key.start_mark.line + 1
            raise ConnectionProblem(
                f"kubeconfig '{path}' has '{key.value}' at line {first} and again at line {again}; "
                f"put all of it into one"
            )
        if isinstance(key, yaml.ScalarNode):
            lines[key.value] = key.start_mark.line + 1


def _current_context(documents: Documents) -> str:
    for content in documents.values():
        if name := content.get("current-context"):
            return str(name)
    raise ConnectionProblem(
        f"kubeconfig '{_path_list(documents)}' has no current-context; set one with "
        f"'kubectl config use-context NAME'"
    )


def _entry(documents: Documents, kind: str, name: str, *, referrer: str) -> tuple[Any, Path]:
    entries = [
        (entry, path)
        for path, content in documents.items()
        for entry in content.get(f"{kind}s") or ()
    ]
    for entry, path in entries:
        if entry["name"] == name:
            return entry.get(kind) or {}, path
    known = ", ".join(dict.fromkeys(f"'{entry['name']}'" for entry, _ in entries)) or "none"
    raise ConnectionProblem(
        f"{referrer} names {kind} '{name}', which does not exist; there are: {known}"
    )


def _path_list(documents: Documents) -> str:
    return "', '".join(str(path) for path in documents)


def _prepare(
    raw: Any, files: Sequence[str], kubeconfig: Path, place: str, model: type[Any]
) -> dict[str, Any]:
    convert_section(raw, model, place=place)
    section: dict[str, Any] = without_empty(raw)
    for key in files:
        if key in section and f"{key}-data" not in section:
            section[key] = str(
                _check_readable(kubeconfig.absolute().parent / section[key], key, place)
            )
        if data := section.get(f"{key}-data"):
            _check_base64(data, f"{key}-data", place)
    return section


def _check_readable(path: Path, key: str, place: str) -> Path:
    try:
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:
        # ValueError: characters that are invalid in a file name.
        fact = error.strerror if isinstance(error, OSError) else error
        raise ConnectionProblem(
            f"{key} of {place} cannot be read: {fact} '{path}'; restore the file or correct its "
            f"name"
        ) from None


def decode_data(data: str) -> bytes:
    """Return the content of a `-data` field, which `resolve_context` has checked to be base64."""
    return base64.b64decode("".join(data.split()), validate=True)


def _check_base64(data: str, key: str, place: str) -> None:
    try:
        decode_data(data)
    except (binascii.Error, ValueError):
        raise ConnectionProblem(
            f"{key} of {place} is not base64; store the PEM text encoded with base64"
        ) from None


def _refuse_contradictions(resolved: ResolvedContext) -> None:
    cluster, user = resolved.cluster, resolved.user
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        raise ConnectionProblem(
            f"{resolved.cluster_place} sets insecure-skip-tls-verify and a certificate authority; "
            f"remove one of them"
        )
    if cluster.tls_server_name and not is_host(cluster.tls_server_name):
        raise ConnectionProblem(
            f"tls-server-name of {resolved.cluster_place} is no host name; write one of the "
            f"server's certificate"
        )
    certificate = user.client_certificate or user.client_certificate_data
    if bool(certificate) != bool(user.client_key or user.client_key_data):
        raise ConnectionProblem(
            f"{resolved.user_place} has only one of client-certificate and client-key; "
            f"add the other"
        )
    # Refused and not ignored: requests would be made as another user than was asked for.
    if user.impersonate or user.impersonate_uid or user.impersonate_groups:
        raise ConnectionProblem(
            f"{resolved.user_place} asks for impersonation ('as'), which is not supported; "
            f"use credentials of that identity"
        )


def _persist(path: Path, content: Any, user: Any, renewed: Mapping[str, Any]) -> None:
    provider = user["auth-provider"]
    provider["config"] = {**(provider.get("config") or {}), **renewed}
    # Written beside the file and renamed, so that a reader gets the old or the new content.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.touch(mode=path.stat().st_mode & 0o777)
    try:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
