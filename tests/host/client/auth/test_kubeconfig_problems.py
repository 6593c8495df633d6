"""Every mistake in a kubeconfig is one line with fact, place and remedy."""

import base64
import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from host.client.conftest import Authority

from kcm_host.client.auth.connection import connect
from kcm_host.client.errors import ConnectionProblem

SECRET = "s3cr3t-value"
GOOD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": SECRET}}],
}
NO_PEM = base64.b64encode(b"no certificate").decode()

Edit = Callable[[Any], object]


def with_cluster(**fields: Any) -> Edit:
    """Adds fields to the cluster."""
    return lambda config: config["clusters"][0]["cluster"].update(kebab(fields))


def with_user(**fields: Any) -> Edit:
    """Puts a user with these fields in."""

    def change(config: Any) -> None:
        config["users"][0]["user"] = kebab(fields)

    return change


def kebab(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Spells field names with dashes."""
    return {name.replace("_", "-"): value for name, value in fields.items()}


def setting(path: list[str | int], value: object) -> Edit:
    """Sets what is at the path."""

    def change(config: Any) -> None:
        *parents, last = path
        for step in parents:
            config = config[step]
        config[last] = value

    return change


@pytest.fixture
def problem(tmp_path: Path) -> Callable[[str], str]:
    """Gives the line that `connect` ends with for this kubeconfig text."""

    def of(text: str) -> str:
        path = tmp_path / "config"
        path.write_text(text)
        with pytest.raises(ConnectionProblem) as caught:
            connect(str(path), environ={})
        assert caught.value.exit_code == 2
        assert caught.value.__cause__ is None
        message = str(caught.value)
        assert "\n" not in message
        assert SECRET not in message
        return message

    return of


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        pytest.param("", "config' is empty", id="empty"),
        pytest.param(f"users: [{SECRET}\n: :", "is not YAML at line 2", id="not YAML"),
        pytest.param(f"token: {SECRET}\n- x", "is not YAML at line 2", id="mixed"),
        pytest.param(f"- {SECRET}", "is not a kubeconfig", id="a list"),
        pytest.param(SECRET, "is not a kubeconfig", id="a word"),
        pytest.param(f"users: [{SECRET}]", "malformed", id="entries that are words"),
        pytest.param("contexts: [{context: {}}]", "`name` - at `$.contexts[0]`", id="no name"),
    ],
)
def test_a_file_that_is_no_kubeconfig(problem: Callable[[str], str], text: str, fact: str) -> None:
    """What cannot be a kubeconfig is named with its path and line, without quoting it."""
    assert fact in problem(text)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        pytest.param(
            lambda config: config.pop("current-context"), "no current-context", id="no context set"
        ),
        pytest.param(
            setting(["current-context"], "y"),
            "names context 'y', which does not exist; there are: 'x'",
            id="unknown context",
        ),
        pytest.param(
            setting(["contexts", 0, "context"], {"user": "u"}), "names no cluster", id="no cluster"
        ),
        pytest.param(
            setting(["contexts", 0, "context"], {"cluster": "c"}), "names no user", id="no user"
        ),
        pytest.param(
            setting(["contexts", 0, "context", "cluster"], "d"),
            "names cluster 'd', which does not exist; there are: 'c'",
            id="unknown cluster",
        ),
        pytest.param(
            setting(["users"], []),
            "names user 'u', which does not exist; there are: none",
            id="unknown user",
        ),
        pytest.param(with_cluster(server=""), "is not an http(s) URL: ''", id="no server"),
        pytest.param(
            with_cluster(server="127.0.0.1:6443"), "is not an http(s) URL", id="no scheme"
        ),
        pytest.param(with_cluster(server="tcp://h:1"), "is not an http(s) URL", id="scheme"),
        pytest.param(with_cluster(server="https://h:99999"), "is not an http(s) URL", id="port"),
        pytest.param(
            with_cluster(server=f"https://u:{SECRET}@h"), "put credentials into", id="user info"
        ),
        pytest.param(
            with_cluster(certificate_authority="no-such.crt"),
            "certificate-authority of cluster 'c'",
            id="missing CA",
        ),
        pytest.param(
            with_cluster(certificate_authority_data="%%%"),
            "certificate-authority-data of cluster 'c'",
            id="CA not base64",
        ),
        pytest.param(
            with_cluster(certificate_authority_data=NO_PEM),
            "holds no usable PEM certificate",
            id="CA not PEM",
        ),
        pytest.param(
            with_cluster(certificate_authority_data=NO_PEM, insecure_skip_tls_verify=True),
            "remove one of them",
            id="CA and insecure",
        ),
        pytest.param(
            with_cluster(proxy_url="socks5://127.0.0.1:1"), "'socks5' proxy", id="socks proxy"
        ),
        pytest.param(with_cluster(proxy_url="http://"), "is not a proxy URL", id="empty proxy"),
        pytest.param(with_user(), "holds no credentials", id="no credentials"),
        pytest.param(with_user(token=""), "holds no credentials", id="empty token"),
        pytest.param(with_user(username="me"), "holds no credentials", id="no password"),
        pytest.param(with_user(token=12345), "expected `str`, got `int`", id="token of digits"),
        pytest.param(with_user(token=f"{SECRET} x"), "no token has", id="token with a blank"),
        pytest.param(with_user(token=f"{SECRET}\nx"), "no token has", id="token of two lines"),
        pytest.param(with_user(tokenFile="none"), "tokenFile of user 'u'", id="missing token file"),
        pytest.param(
            with_user(client_certificate_data=NO_PEM),
            "only one of client-certificate and client-key",
            id="no key",
        ),
        pytest.param(
            with_user(client_certificate_data=NO_PEM, client_key_data="%"),
            "client-key-data of user 'u'",
            id="key not base64",
        ),
        pytest.param(
            with_user(client_certificate_data=NO_PEM, client_key_data=NO_PEM),
            "are not a usable PEM pair",
            id="pair not PEM",
        ),
        pytest.param(
            with_user(client_certificate="none.crt", client_key="none.key"),
            "client-certificate of user 'u'",
            id="missing certificate file",
        ),
        pytest.param(
            with_user(**{"token": SECRET, "as": "admin"}), "impersonation", id="impersonation"
        ),
        pytest.param(
            with_user(auth_provider={"name": "azure", "config": {"access-token": SECRET}}),
            "auth-provider 'azure', which is not supported",
            id="unknown provider",
        ),
        pytest.param(with_user(exec={"apiVersion": "x"}), "names no command", id="no command"),
        pytest.param(
            with_user(exec={"command": "a", "apiVersion": "client.authentication.k8s.io/v1alpha1"}),
            "v1alpha1', which is not supported",
            id="old exec version",
        ),
        pytest.param(
            with_user(
                exec={
                    "command": "a",
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Always",
                }
            ),
            "there is no terminal here",
            id="exec wants a terminal",
        ),
        pytest.param(
            with_user(exec={"command": "a", "env": [{"name": "N", "value": 1}]}),
            "at `$.exec.env[0].value`",
            id="exec variable of digits",
        ),
    ],
)
def test_a_mistake_inside(problem: Callable[[str], str], change: Edit, fact: str) -> None:
    """A mistake is named with the section it stands in, never with a secret."""
    config = copy.deepcopy(GOOD)
    change(config)
    assert fact in problem(yaml.safe_dump(config))


def test_the_table_starts_from_a_good_kubeconfig(tmp_path: Path) -> None:
    """The kubeconfig that the table breaks is accepted as it is."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(GOOD))
    assert connect(str(path), environ={}).base_url == "https://127.0.0.1:1"


def test_a_certificate_alone_is_no_credential_for_plain_http(
    problem: Callable[[str], str], authority: Authority
) -> None:
    """A client certificate cannot be seen by an http:// server, so it does not count."""
    config = copy.deepcopy(GOOD)
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    config["users"][0]["user"] = authority.issue().user
    assert "https only" in problem(yaml.safe_dump(config))


def test_an_encrypted_key_is_refused_without_asking(
    problem: Callable[[str], str], authority: Authority
) -> None:
    """A key with a passphrase is an error; nothing asks for it on the terminal."""
    config = copy.deepcopy(GOOD)
    config["users"][0]["user"] = authority.issue(password=b"x").user
    assert "is encrypted" in problem(yaml.safe_dump(config))


def test_a_key_of_another_certificate(problem: Callable[[str], str], authority: Authority) -> None:
    """Certificate and key that do not belong together are named as that."""
    config = copy.deepcopy(GOOD)
    key = authority.issue().user["client-key-data"]
    config["users"][0]["user"] = {**authority.issue().user, "client-key-data": key}
    assert "do not belong together" in problem(yaml.safe_dump(config))


LAUGHS = "\n".join(
    ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 20)]
)


CHAIN = "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))])


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        pytest.param("[" * 3000, "line 1: more than 50 levels deep", id="brackets"),
        pytest.param("a: &x\n  b: *x", "line 1: this value contains an alias of itself", id="self"),
        pytest.param(CHAIN, "line 50: more than 50 levels deep", id="levels through aliases"),
        pytest.param(LAUGHS, "more than 40000 values, aliases counted", id="billion laughs"),
        pytest.param("current-context: !mine x", "tag '!mine' is not supported", id="own tag"),
        pytest.param("users: !!set {a, b}", "set' is not supported", id="set"),
        pytest.param("? [a]\n: 1", "a key must be text", id="key is a list"),
        pytest.param("<<: 1", "'<<' takes a mapping", id="merge of a number"),
        pytest.param("#" * ((16 << 20) + 1), "is larger than 16 MiB", id="large"),
    ],
)
def test_the_guards_of_the_config_file_hold_here_too(
    problem: Callable[[str], str], text: str, fact: str
) -> None:
    """F-24: what unfolds, nests or repeats itself without end is refused at once."""
    assert fact in problem(text)


def test_endless_digits_are_a_text(problem: Callable[[str], str]) -> None:
    """F-24: 5,000 digits where a text belongs are no traceback of Python's."""
    text = yaml.safe_dump(GOOD).replace(SECRET, "9" * 5000)
    assert "4000" not in problem(text.replace("127.0.0.1:1", "127.0.0.1:x"))


def test_values_mean_what_clients_in_go_take_them_for(tmp_path: Path) -> None:
    """F-24: `yes` is true, merges and aliases are followed, a date stays a text."""
    path = tmp_path / "config"
    path.write_text(
        "current-context: 2024-01-01\n"
        "contexts: [{name: 2024-01-01, context: {cluster: c, user: u}}]\n"
        "base: &base {server: 'https://127.0.0.1:1', tls-server-name: first}\n"
        "clusters: [{name: c, cluster: {<<: *base, tls-server-name: own,"
        " insecure-skip-tls-verify: yes}}]\n"
        "users: [{name: u, user: {token: abc}}]\n"
    )
    connection = connect(str(path), environ={})
    assert connection.base_url == "https://127.0.0.1:1"
    assert connection.tls_server_name == "own"
    assert connection.ca_bundle.insecure
