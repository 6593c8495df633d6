"""Whatever a kubeconfig or an exec plugin says: a connection or one clear error."""

import asyncio
import base64
import copy
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from fuzz_input import one_input
from hypothesis import given
from hypothesis import strategies as st

from kcm_host.client.auth.connection import connect
from kcm_host.client.auth.exec_plugin import ExecPlugin
from kcm_host.client.auth.kubeconfig import ExecConfig
from kcm_host.client.errors import ConnectionProblem
from kcm_host.client.http.dialer import Address
from kcm_host.client.http.messages import encode_request

V1 = "client.authentication.k8s.io/v1"
EXEC = {
    "apiVersion": V1,
    "command": "true",
    "args": ["a"],
    "env": [{"name": "A", "value": "b"}],
    "installHint": "install it",
    "provideClusterInfo": True,
    "interactiveMode": "Never",
}
USER = {
    "token": "abc",
    "tokenFile": "token",
    "client-certificate-data": base64.b64encode(b"no PEM").decode(),
    "client-key-data": "no base64",
    "username": "u",
    "password": "p",
    "exec": EXEC,
    "auth-provider": {"name": "oidc", "config": {"id-token": "x"}},
    "as": "somebody",
}
CLUSTER = {
    "server": "https://kube.example:6443/path",
    "certificate-authority-data": base64.b64encode(b"no PEM").decode(),
    "insecure-skip-tls-verify": True,
    "tls-server-name": "other.example",
    "proxy-url": "http://bob:S3CRET@proxy.example:3128",
    "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "x",
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": CLUSTER}],
    "users": [{"name": "u", "user": USER}],
}

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(
        [
            "\0",
            "\ud800",
            "/",
            "a\0b",
            "~",
            "http://[",
            "https://a b",
            "https://a\\b",
            "x" * 5000,
            "a\nb",
        ]
    ),
    st.just([]),
    st.just({}),
    st.just([{"name": 1}]),
    st.just({"name": {"name": []}}),
)


USERS: list[dict[str, Any]] = [
    {"token": "abc"},
    {"tokenFile": "token"},
    {"client-certificate": "token", "client-key": "token"},
    {"username": "u", "password": "p"},
    {"exec": EXEC},
    {"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}},
    USER,
]
PLAIN = {"server": "https://kube.example:6443", "insecure-skip-tls-verify": True}
FIELDS = {
    "cluster": [*CLUSTER, "certificate-authority"],
    "user": [*USER, "client-certificate", "client-key"],
    "exec": [*EXEC],
}


@st.composite
def structures(draw: st.DrawFn) -> str:
    """Return kubeconfigs of which up to three fields hold something odd."""
    config = copy.deepcopy(CONFIG)
    cluster = config["clusters"][0]["cluster"] = dict(draw(st.sampled_from([PLAIN, CLUSTER])))
    user = config["users"][0]["user"] = copy.deepcopy(draw(st.sampled_from(USERS)))
    places = {"cluster": cluster, "user": user, "exec": user.get("exec", {}), "top": config}
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from([*places]))
        field = draw(st.sampled_from(FIELDS.get(place) or [*CONFIG]))
        places[place][field] = draw(odd)
    return json.dumps(config) if draw(st.booleans()) else yaml.safe_dump(config)


PARTS = ["[", "{", "&a ", "*a", "<<: ", "- ", "? ", "!!", "!!binary ", "!!int ", "'", '"', "\t"]
PARTS += ["9" * 5000, "0x" + "f" * 5000, "1:" * 2000, ".inf", "2024-99-99", "\x85", "---\n", "%"]
PARTS += ["[" * 3000, "{a: " * 3000, "- " * 3000, "&a [*a]", "\u2028", "|\n  x\n", "#", ": "]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return the text of a kubeconfig with some parts replaced, inserted or repeated."""
    text = yaml.safe_dump(CONFIG)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        part = draw(st.one_of(st.sampled_from(PARTS), st.text(max_size=5)))
        text = text[:start] + part * draw(st.integers(1, 3)) + text[end:]
    return text


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the kubeconfig is, beside a token file."""
    folder = tmp_path_factory.mktemp("kubeconfigs")
    (folder / "token").write_text("abc")
    return folder / "config"


@given(text=st.one_of(mutated(), structures()))
def test_kubeconfigs_are_used_or_refused(path: Path, text: str) -> None:
    """F-24, F-2: in one line, without the password of the proxy."""
    path.write_bytes(text.encode(errors="surrogatepass"))
    problem = ""
    with one_input("kubeconfig"):
        try:
            connection = connect(str(path), environ={"PATH": "/usr/bin:/bin"})
            address = Address(urlsplit(connection.base_url))
            assert (connection.tls_server_name or address.host).encode("idna")
            assert encode_request("GET", "/healthz", headers={"Host": address.authority})
            assert "S3CRET" not in repr(connection)
        except ConnectionProblem as refusal:
            problem = str(refusal)
    assert "\n" not in problem
    assert "S3CRET" not in problem


prints = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": st.one_of(st.just(V1), odd),
        "kind": st.one_of(st.just("ExecCredential"), odd),
        "status": st.one_of(
            st.fixed_dictionaries(
                {},
                optional={
                    "token": st.one_of(st.just("abc"), odd),
                    "clientCertificateData": odd,
                    "clientKeyData": odd,
                    "expirationTimestamp": st.one_of(
                        odd,
                        st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
                        st.sampled_from(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]),
                    ),
                },
            ),
            odd,
        ),
    },
)


@given(output=st.one_of(prints.map(lambda one: json.dumps(one).encode()), st.binary(max_size=40)))
def test_what_exec_plugins_print_is_used_or_refused(output: bytes) -> None:
    """F-83, F-10: credentials that can stand in a header, or an error that names the program."""
    plugin = ExecPlugin(
        ExecConfig(command="p", api_version=V1), "p", "user 'u'", {}, None, time.time
    )
    problem = "exec plugin 'p' of user 'u'"
    with one_input("exec plugin output"):
        try:
            assert plugin.credentials_from(output).headers["Authorization"].isprintable()
        except ConnectionProblem as refusal:
            problem = str(refusal)
    assert "exec plugin 'p' of user 'u'" in problem


@given(args=st.lists(st.text(max_size=10), max_size=3), command=st.text(min_size=1, max_size=10))
def test_programs_that_cannot_be_started_are_told(args: list[str], command: str) -> None:
    """F-83: also where no system call takes such a name."""
    plugin = ExecPlugin(
        ExecConfig(command=command, args=args, api_version=V1),
        f"/nowhere/{command}",
        "u",
        {},
        None,
        time.time,
    )
    with one_input("exec plugin command"), pytest.raises(ConnectionProblem, match="cannot be"):
        asyncio.run(plugin.fetch())
