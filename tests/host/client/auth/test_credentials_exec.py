"""Credentials that a program prints."""

import asyncio
import json
import os
import shlex
import stat
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from host.client.conftest import Authority, Connected, Serve, WriteKubeconfig, ask, encoded

from kcm_host.client.auth.connection import Connection
from kcm_host.client.auth.exec_plugin import exec_plugin
from kcm_host.client.auth.kubeconfig import resolve_context
from kcm_host.client.errors import ConnectionProblem

V1 = "client.authentication.k8s.io/v1"
CLUSTER = {"server": "https://127.0.0.1:1"}

Section = dict[str, Any]


def credential(version: str = V1, **status: str) -> str:
    """The JSON text a good plugin prints."""
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


class Programs:
    """Exec plugins that are shell scripts in one folder, and connections that use them."""

    def __init__(self, folder: Path, connected: Connected) -> None:
        self._folder = folder
        self._connected = connected

    def script(self, script: str, name: str = "plugin", **fields: Any) -> Section:
        """Write a shell script and return the `exec` section that runs it."""
        path, runs = self._folder / name, shlex.quote(str(self._folder / "runs"))
        path.write_text(f"#!/bin/sh\necho run >> {runs}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {"apiVersion": V1, "command": str(path), "interactiveMode": "Never", **fields}

    def printing(self, text: str, **fields: Any) -> Section:
        """Return the `exec` section of a plugin that prints this text."""
        return self.script(f"printf %s {shlex.quote(text)}", **fields)

    @property
    def runs(self) -> int:
        """How often plugins ran so far."""
        path = self._folder / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def connect(self, section: Section, **options: Any) -> Connection:
        """Connect with this `exec`."""
        return self._connected(cluster=CLUSTER, user={"exec": section}, **options)

    async def failure(self, section: Section) -> str:
        """Return the one line that asking this `exec` ends with."""
        connection = self.connect(section)
        with pytest.raises(ConnectionProblem) as caught:
            await connection.credentials.current()
        assert caught.value.exit_code == 2
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def programs(tmp_path: Path, connected: Connected) -> Programs:
    """Return exec plugins, none yet."""
    return Programs(tmp_path, connected)


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
async def test_a_printed_token_is_sent(programs: Programs, version: str) -> None:
    """The printed token goes into the header; connecting alone runs nothing."""
    section = programs.printing(credential(version, token="abc"), apiVersion=version)
    connection = programs.connect(section)
    assert programs.runs == 0
    assert await connection.credentials.headers() == {"Authorization": "Bearer abc"}
    await connection.credentials.headers()
    assert programs.runs == 1


async def test_a_printed_certificate_is_shown(
    programs: Programs,
    serve: Serve,
    authority: Authority,
    connected: Connected,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A printed certificate is shown to the server, and its key leaves no file."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    server = await serve(clients=True)
    pair = authority.issue("plugin's")
    text = credential(clientCertificateData=pair.certificate, clientKeyData=pair.key)
    connection = connected(cluster=server.cluster, user={"exec": programs.printing(text)})
    assert await ask(connection) == 200
    assert server.seen[0]["certificate"] == "plugin's"
    assert list(folder.iterdir()) == []


async def test_a_new_certificate_is_a_new_context(
    programs: Programs, authority: Authority, tmp_path: Path
) -> None:
    """After a renewal the TLS context changes only when the printed pair did."""
    printed = tmp_path / "printed"

    def put() -> None:
        pair = authority.issue()
        printed.write_text(
            credential(clientCertificateData=pair.certificate, clientKeyData=pair.key)
        )

    put()
    section = programs.script(f"cat {shlex.quote(str(printed))}")
    running = [0.0]
    connection = programs.connect(section, monotonic=lambda: running[0])
    credentials = connection.credentials
    first = await credentials.current()
    credentials.invalidate(first)
    same = await credentials.current()
    assert same.ssl is first.ssl
    put()
    running[0] += 10
    credentials.invalidate(same)
    assert (await credentials.current()).ssl is not first.ssl


async def test_arguments_environment_and_cluster(
    programs: Programs,
    authority: Authority,
    kubeconfig: WriteKubeconfig,
    connected: Connected,
    tmp_path: Path,
) -> None:
    """The program gets its arguments, our and its own variables, and the cluster it asks for."""
    note = tmp_path / "note"
    script = (
        'printf "%s\\n" "$1" "$2" "$OURS" "$ITS" "$KUBERNETES_EXEC_INFO"'
        f" > {shlex.quote(str(note))}"
        f"\nprintf %s {shlex.quote(credential(token='abc'))}"
    )
    section = programs.script(
        script,
        args=["get token", "--now"],
        env=[{"name": "ITS", "value": "of the plugin"}, {"name": "OURS", "value": "replaced"}],
        provideClusterInfo=True,
    )
    (tmp_path / "ca.crt").write_text(authority.pem)
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {
        "server": "https://127.0.0.1:1",
        "certificate-authority": "ca.crt",
        "tls-server-name": "kube.example",
        "extensions": [{"name": "other", "extension": 1}, extension],
    }
    environ = {"OURS": "of the host", "PATH": os.environ["PATH"]}
    await connected(cluster=cluster, user={"exec": section}, environ=environ).credentials.current()
    *texts, info = note.read_text().splitlines()
    assert texts == ["get token", "--now", "replaced", "of the plugin"]
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://127.0.0.1:1",
                "tls-server-name": "kube.example",
                "certificate-authority-data": encoded(authority.pem),
                "config": {"audience": "a"},
            },
        },
    }


async def test_a_relative_command_is_beside_the_kubeconfig(programs: Programs) -> None:
    """A command with a folder in its name is found from the kubeconfig's folder."""
    section = programs.printing(credential(token="abc"), command="./plugin")
    connection = programs.connect(section)
    assert await connection.credentials.headers() == {"Authorization": "Bearer abc"}


async def test_a_bare_command_is_found_in_the_path(programs: Programs, tmp_path: Path) -> None:
    """A bare command is looked up in PATH of the environment we were given."""
    section = programs.printing(credential(token="abc"), command="plugin")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    connection = programs.connect(section, environ=environ)
    assert await connection.credentials.headers() == {"Authorization": "Bearer abc"}


async def test_a_token_in_the_kubeconfig_wins(programs: Programs, connected: Connected) -> None:
    """With a token beside it the program is not needed."""
    user = {"token": "static", "exec": programs.printing(credential(token="abc"))}
    connection = connected(cluster=CLUSTER, user=user)
    assert await connection.credentials.headers() == {"Authorization": "Bearer static"}
    assert programs.runs == 0


async def test_a_failing_program_is_an_error(programs: Programs) -> None:
    """Exit code, the last lines of stderr and the install hint are told."""
    script = "for i in 1 2 3 4 5; do echo line $i >&2; done; exit 3"
    message = await programs.failure(
        programs.script(script, installHint="Install it\nfrom somewhere.")
    )
    assert "plugin' of user 'u1'" in message
    assert "ended with exit code 3: line 3 / line 4 / line 5;" in message
    assert message.endswith("Install it from somewhere.")


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("no-such-plugin", "is not on PATH;"),
        ("./no-such-plugin", "does not exist;"),
        ("./config", "is no program that may be run;"),
    ],
)
def test_a_missing_program_is_an_error(programs: Programs, command: str, fact: str) -> None:
    """A command that cannot be run is named with the install hint before it is needed (F-87)."""
    section = {"apiVersion": V1, "command": command, "installHint": "Get it."}
    with pytest.raises(ConnectionProblem) as caught:
        programs.connect(section)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert message.startswith("exec plugin '")
    assert f"{command.removeprefix('./')}' of user 'u1'" in message
    assert fact in message
    assert message.endswith("Get it.")


async def test_a_program_that_vanishes_is_an_error(programs: Programs) -> None:
    """A command that was there at the start and is not there now is named too."""
    section = programs.script("exit 0")
    connection = programs.connect(section)
    Path(section["command"]).unlink()
    with pytest.raises(ConnectionProblem, match="cannot be started: No such file or directory"):
        await connection.credentials.current()


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "did not print an ExecCredential"),
        ("s3cr3t", "did not print an ExecCredential"),
        ('{"token": "s3cr3t"}', "did not print an ExecCredential"),
        (credential(), "neither a token nor a client certificate"),
        (credential(clientKeyData="s3cr3t"), "neither a token nor a client certificate"),
        (credential(clientCertificateData="s3cr3t"), "only one of clientCertificateData"),
        (credential(token="s3cr3t\nx"), "holds characters that no token has"),
        (credential(clientCertificateData="s3cr3t", clientKeyData="s3cr3t"), "usable PEM pair"),
        (credential(token="s3cr3t", expirationTimestamp="soon"), "expirationTimestamp"),
        (credential(f"{V1}beta1", token="s3cr3t"), f"asks for 'ExecCredential' of '{V1}'"),
        (credential(token="s3cr3t").replace("ExecC", "C"), "printed 'Credential' of"),
    ],
)
async def test_a_useless_answer_is_an_error(programs: Programs, text: str, fact: str) -> None:
    """What is wrong with the printed text is told without showing it."""
    message = await programs.failure(programs.printing(text))
    assert fact in message
    assert "s3cr3t" not in message


async def test_a_certificate_for_plain_http_is_an_error(
    programs: Programs, connected: Connected, authority: Authority
) -> None:
    """A printed certificate is no credential where the server is at http://."""
    pair = authority.issue()
    text = credential(clientCertificateData=pair.certificate, clientKeyData=pair.key)
    connection = connected(
        cluster={"server": "http://127.0.0.1:1"}, user={"exec": programs.printing(text)}
    )
    with pytest.raises(ConnectionProblem, match="http:// cannot carry"):
        await connection.credentials.current()


def alive(pid: int) -> bool:
    """Return whether this process still runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    """Return whether the process is gone before a minute is over."""
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


@pytest.mark.parametrize("script", ["sleep 600 & echo $! > PID; wait", "sleep 600 & echo $! > PID"])
async def test_a_hanging_program_is_ended_with_its_children(
    programs: Programs, kubeconfig: WriteKubeconfig, tmp_path: Path, script: str
) -> None:
    """After the time limit the program and what it started are killed and named."""
    pid_file = tmp_path / "pid"
    section = programs.script(script.replace("PID", shlex.quote(str(pid_file))))
    chosen = resolve_context([kubeconfig(cluster=CLUSTER, user={"exec": section})])
    source = exec_plugin(chosen, environ={}, tls=None, clock=time.time)
    with pytest.raises(ConnectionProblem, match=r"did not end within 0\.5 s and was killed"):
        await replace(source, time_limit=timedelta(seconds=0.5)).fetch()
    assert gone(int(pid_file.read_text()))


def test_the_end_of_the_loop_ends_the_program(programs: Programs, tmp_path: Path) -> None:
    """A stopping host does not wait for a plugin that still runs, and leaves none behind."""
    pid_file = tmp_path / "pid"
    name = shlex.quote(str(pid_file))
    section = programs.script(f"echo $$ > {name}.new; mv {name}.new {name}; sleep 600")
    credentials = programs.connect(section).credentials

    async def stop_while_it_runs() -> None:
        asking = asyncio.create_task(credentials.current())
        async with asyncio.timeout(60):
            while not pid_file.exists():
                await asyncio.wait((asking,), timeout=0.01)

    asyncio.run(stop_while_it_runs())
    assert gone(int(pid_file.read_text()))


async def test_a_flood_of_output_is_bounded(programs: Programs) -> None:
    """F-83: a program that prints without end is killed, and named."""
    message = await programs.failure(programs.script("exec cat /dev/zero"))
    assert "printed more than 1 MiB" in message


async def test_a_flood_of_complaints_is_shortened(programs: Programs) -> None:
    """F-83: all of stderr is read, so that the program can end, and its end is shown."""
    script = r"head -c 3000000 /dev/zero | tr '\0' x >&2; echo last words >&2; exit 3"
    message = await programs.failure(programs.script(script))
    assert "exit code 3" in message
    assert "last words" in message
    assert len(message) < 1000


@pytest.mark.parametrize("turns", range(12))
def test_a_stop_while_the_program_is_started_ends_it_too(
    programs: Programs, tmp_path: Path, turns: int
) -> None:
    """F-83: at whatever moment the loop ends, nothing waits for ever and nothing is left."""
    pid_file = tmp_path / "pid"
    section = programs.script(f"echo $$ > {shlex.quote(str(pid_file))}; exec sleep 600")
    credentials = programs.connect(section).credentials

    async def stop_after_some_turns() -> None:
        asking = asyncio.create_task(credentials.current())
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not asking.done()

    asyncio.run(stop_after_some_turns())
    assert not pid_file.exists() or not pid_file.read_text() or gone(int(pid_file.read_text()))


async def test_the_loop_goes_on_while_a_program_runs(programs: Programs, tmp_path: Path) -> None:
    """Other tasks run while the plugin waits, here for a file that one of them writes."""
    flag = shlex.quote(str(tmp_path / "flag"))
    script = (
        f"while [ ! -e {flag} ]; do sleep 0.02; done; "
        f"printf %s {shlex.quote(credential(token='abc'))}"
    )
    credentials = programs.connect(programs.script(script)).credentials
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        asking = group.create_task(credentials.headers())
        await asyncio.sleep(0)
        (tmp_path / "flag").touch()
        assert await asking == {"Authorization": "Bearer abc"}


async def test_the_program_runs_again_before_its_token_expires(programs: Programs) -> None:
    """The plugin runs anew a minute before expirationTimestamp, and after a 401."""
    now = [time.time()]
    text = credential(token="abc", expirationTimestamp="AT")
    script = f'at=$(date -u -d "+1 hour" "+%Y-%m-%dT%H:%M:%SZ")\necho {shlex.quote(text)} | '
    script += 'sed "s/AT/$at/"'
    connection = programs.connect(programs.script(script), clock=lambda: now[0])
    credentials = connection.credentials
    await credentials.current()
    now[0] += 3500
    await credentials.current()
    assert programs.runs == 1
    now[0] += 60
    access = await credentials.current()
    assert programs.runs == 2
    credentials.invalidate(access)
    await asyncio.gather(*(credentials.current() for _ in range(10)))
    assert programs.runs == 3
