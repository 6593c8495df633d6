"""The parts of a kubeconfig that we look into ourselves, as typed values."""

from typing import Any, TypeVar

import msgspec

from kcm_host.wire.identity.problem import ConnectionProblem

T = TypeVar("T")


class Named(msgspec.Struct, frozen=True):
    """The name that clusters, users and contexts are found by."""

    name: str


class File(msgspec.Struct, frozen=True, rename="kebab"):
    """A whole kubeconfig, as far as names lead through it."""

    current_context: str = ""
    clusters: list[Named] = []
    contexts: list[Named] = []
    users: list[Named] = []


class Context(msgspec.Struct, frozen=True):
    """Which cluster is talked to as which user."""

    cluster: str = ""
    user: str = ""


class Extension(msgspec.Struct, frozen=True):
    """Free data of a cluster; one well-known name is meant for exec plugins."""

    name: str
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """Where the API server is and how it proves itself."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[Extension] = []


class Variable(msgspec.Struct, frozen=True):
    """One environment variable for an exec plugin."""

    name: str
    value: str = msgspec.field(default="")


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """A program that prints credentials; its arguments may hold secrets."""

    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[Variable] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"

    def __repr__(self) -> str:
        return f"Exec({self.command!r})"


class AuthProvider(msgspec.Struct, frozen=True):
    """The older way to name a credential source."""

    name: str = ""
    config: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"AuthProvider({self.name!r})"


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """Who we are; every field may hold a secret, so none is ever shown."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: list[str] = msgspec.field(name="as-groups", default=[])
    impersonate_extra: dict[str, list[str]] = msgspec.field(name="as-user-extra", default={})

    def __repr__(self) -> str:
        return "User(...)"


def typed(value: Any, model: type[T], *, place: str) -> T:
    """
    Read a stanza into its model, taking null and empty text for left out, as clients in Go do.

    Raises ConnectionProblem that names the field and the types, never the value.
    """
    try:
        return msgspec.convert(without_empty(value), model)
    except msgspec.ValidationError as error:
        raise ConnectionProblem(
            f"{place} is malformed: {str(error)[0].lower()}{str(error)[1:]}; correct that field "
            f"(quote values that YAML takes for numbers or dates)"
        ) from None


def without_empty(value: Any) -> Any:
    """Give a copy of YAML data without nulls and empty strings in its mappings."""
    if isinstance(value, dict):
        return {k: without_empty(v) for k, v in value.items() if v is not None and v != ""}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value
