"""Exec plugins: programs that print credentials, run without a terminal and with limits."""

import asyncio
import base64
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from kcm_host.client.auth.credentials import Clock, RequestCredentials, authorization, renewal_time
from kcm_host.client.auth.kubeconfig import ExecConfig, ResolvedContext
from kcm_host.client.auth.tls import ClientTls
from kcm_host.client.errors import DECODE_ERRORS, ConnectionProblem

#: How long to wait for the end of a killed program.
KILL_TIMEOUT = timedelta(seconds=1)
#: How often to check whether a program that has closed its output has exited.
POLL_INTERVAL = timedelta(milliseconds=10)
#: The bytes at the end of stderr that are kept.
MAX_STDERR_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ExitedProgram:
    """Exit code and output of a program that was not killed."""

    code: int
    stdout: bytes
    stderr: bytes


class TooMuchOutput(Exception):
    """The program wrote too much to stdout, and was killed."""


async def run(
    command: Sequence[str], *, environ: Mapping[str, str], limit: timedelta, max_stdout_bytes: int
) -> ExitedProgram:
    """
    Run a program; return its exit code and output.

    Its stdin is empty, and it leads a session of its own, so that it and its children are killed
    together: after `limit` (raise TimeoutError), when it writes more than `max_stdout_bytes`
    (raise TooMuchOutput), and when the caller is cancelled. Raise OSError when it cannot be
    started.
    """
    # Not asyncio's subprocess: cancelled while it starts a program, it waits for ever.
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - returns in milliseconds; the user names the program
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    ended = False
    with process.stdout, process.stderr:
        try:
            async with asyncio.timeout(limit.total_seconds()):
                stdout, stderr = await asyncio.gather(
                    _read_stdout(process.stdout, max_stdout_bytes, process.pid),
                    _read_stderr(process.stderr),
                )
                await _wait_for_exit(process)
            ended = True
        finally:
            # Also when only children are left, which keep the pipes open.
            if not ended:
                _kill(process.pid)
                with suppress(TimeoutError):
                    await asyncio.wait_for(_wait_for_exit(process), KILL_TIMEOUT.total_seconds())
    if len(stdout) > max_stdout_bytes:
        raise TooMuchOutput
    return ExitedProgram(process.returncode, stdout, stderr)


async def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:  # noqa: ASYNC110 - no event that every system has
        await asyncio.sleep(POLL_INTERVAL.total_seconds())


async def _read_stdout(pipe: IO[bytes], max_stdout_bytes: int, group: int) -> bytes:
    """Return stdout; kill the process group when it is longer than `max_stdout_bytes`."""
    parts, size = [], 0
    while size <= max_stdout_bytes and (part := await _read_chunk(pipe)):
        parts.append(part)
        size += len(part)
    if size > max_stdout_bytes:
        _kill(group)
    return b"".join(parts)


async def _read_stderr(pipe: IO[bytes]) -> bytes:
    """Return the end of stderr; all of it is read, since a full pipe would block the program."""
    tail = b""
    while part := await _read_chunk(pipe):
        tail = (tail + part)[-MAX_STDERR_BYTES:]
    return tail


async def _read_chunk(pipe: IO[bytes]) -> bytes:
    """Return the next chunk; empty at the end."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(pipe.fileno(), _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(pipe.fileno())
    return os.read(pipe.fileno(), 64 << 10)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
TIME_LIMIT = timedelta(seconds=60)
#: More than any credentials need.
#: 300 MB of an output were read whole before (F-83).
MAX_STDOUT_BYTES = 1 << 20
#: The lines at the end of a failed plugin's stderr that are shown.
STDERR_LINES_SHOWN = 3


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials that a plugin prints."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    def __repr__(self) -> str:
        return "Status(...)"


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The document that a plugin prints to stdout."""

    api_version: str
    kind: str
    status: Status


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """
    A credential source that runs a program for each `fetch`.

    The program never gets a terminal, and is killed after 60 s or when the event loop ends.
    """

    config: ExecConfig
    command: str
    place: str
    variables: Mapping[str, str] = field(repr=False)
    tls: ClientTls | None
    clock: Clock
    time_limit: timedelta = TIME_LIMIT

    def refuse_missing(self) -> None:
        """Raise ConnectionProblem if there is no such program, without running it."""
        if shutil.which(self.command, path=os.pathsep.join(os.get_exec_path(self.variables))):
            return
        if os.sep not in self.command:
            raise self._problem("is not on PATH")
        exists = Path(self.command).exists()
        raise self._problem("is no program that may be run" if exists else "does not exist")

    async def fetch(self) -> RequestCredentials:
        """Return the printed credentials; raise ConnectionProblem with the name of the program."""
        return self.credentials_from(await self._run())

    def credentials_from(self, stdout: bytes) -> RequestCredentials:
        """Return what a run of the program printed, as credentials; raises ConnectionProblem."""
        return self._credentials(self._decode(stdout))

    async def _run(self) -> bytes:
        command = [self.command, *self.config.args]
        try:
            ended = await run(
                command,
                environ=self.variables,
                limit=self.time_limit,
                max_stdout_bytes=MAX_STDOUT_BYTES,
            )
        except TimeoutError:
            limit = f"{self.time_limit.total_seconds():g} s"
            raise self._problem(f"did not end within {limit} and was killed") from None
        except OSError as error:
            raise self._problem(f"cannot be started: {error.strerror}") from None
        except ValueError as error:
            # Characters that are invalid in the name of a program or in an argument.
            raise self._problem(f"cannot be started: {error}") from None
        except TooMuchOutput:
            raise self._problem(f"printed more than {MAX_STDOUT_BYTES >> 20} MiB") from None
        if ended.code:
            stderr = _last_lines(ended.stderr)
            raise self._problem(f"ended with exit code {ended.code}: {stderr}")
        return ended.stdout

    def _decode(self, stdout: bytes) -> Status:
        try:
            answer = msgspec.json.decode(stdout, type=ExecCredential)
        except DECODE_ERRORS as error:
            # A decode error contains positions and types, never the text itself.
            raise self._problem(f"did not print an ExecCredential: {error}") from None
        expected = (self.config.api_version, "ExecCredential")
        if (answer.api_version, answer.kind) != expected:
            raise self._problem(
                f"printed '{answer.kind}' of '{answer.api_version}', but the kubeconfig asks for "
                f"'ExecCredential' of '{self.config.api_version}'"
            )
        return answer.status

    def _credentials(self, status: Status) -> RequestCredentials:
        certificate, key = status.client_certificate_data, status.client_key_data
        if not status.token and not certificate:
            raise self._problem("printed neither a token nor a client certificate")
        if bool(certificate) != bool(key):
            raise self._problem("printed only one of clientCertificateData and clientKeyData")
        if not status.token and self.tls is None:
            raise self._problem("printed only a client certificate, which http:// cannot carry")
        place = f"what exec plugin '{self.command}' of {self.place} printed"
        context = self.tls.context() if self.tls is not None else None
        if certificate and key and self.tls is not None:
            context = self.tls.context_with_pair(certificate, key, place=place)
        now, expires_at = self.clock(), None
        if status.expiration_timestamp is not None:
            expires_at = status.expiration_timestamp.timestamp()
        return RequestCredentials(
            headers=authorization("Bearer", status.token, place=f"the token in {place}")
            if status.token
            else {},
            ssl=context,
            expires_at=expires_at,
            renew_at=None if expires_at is None else renewal_time(now=now, expires_at=expires_at),
        )

    def _problem(self, fact: str) -> ConnectionProblem:
        hint = " ".join(self.config.install_hint.split())
        remedy = f"; {hint}" if hint else ""
        return ConnectionProblem(
            f"exec plugin '{self.command}' of {self.place} {fact}; check that the command works "
            f"without a terminal{remedy}"
        )


def exec_plugin(
    resolved: ResolvedContext, *, environ: Mapping[str, str], tls: ClientTls | None, clock: Clock
) -> ExecPlugin:
    """Return the source for the user's `exec`; raise ConnectionProblem if it is unusable."""
    config = resolved.user.exec
    assert config is not None
    place = f"exec of {resolved.user_place}"
    if not config.command:
        raise ConnectionProblem(f"{place} names no command; add 'command: PROGRAM'")
    if config.api_version not in VERSIONS:
        raise ConnectionProblem(
            f"{place} asks for apiVersion '{config.api_version}', which is not supported; use "
            f"'{VERSIONS[0]}' with a plugin that supports it"
        )
    if config.interactive_mode not in {"Never", "IfAvailable"}:
        raise ConnectionProblem(
            f"{place} has interactiveMode '{config.interactive_mode}', but there is no "
            f"terminal here; use a plugin that works with 'Never' or 'IfAvailable'"
        )
    info = {
        "apiVersion": config.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, **_cluster_info(resolved)},
    }
    variables = {item.name: item.value for item in config.env}
    plugin = ExecPlugin(
        config=config,
        command=_command(config.command, resolved.user_file.absolute().parent),
        place=resolved.user_place,
        variables={
            **environ,
            **variables,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        },
        tls=tls,
        clock=clock,
    )
    plugin.refuse_missing()
    return plugin


def _command(command: str, folder: Path) -> str:
    # A bare name is looked up in PATH; only names with a folder are relative to the kubeconfig.
    return str(folder / command) if os.sep in command else command


def _cluster_info(resolved: ResolvedContext) -> dict[str, Any]:
    config = resolved.user.exec
    if config is None or not config.provide_cluster_info:
        return {}
    cluster = resolved.cluster
    data = cluster.certificate_authority_data
    if not data and cluster.certificate_authority:
        data = base64.b64encode(Path(cluster.certificate_authority).read_bytes()).decode()
    info: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": data,
        "proxy-url": cluster.proxy_url,
    }
    for extension in cluster.extensions:
        if extension.name == f"{GROUP}/exec":
            info["config"] = extension.extension
    return {"cluster": {name: value for name, value in info.items() if value}}


def _last_lines(text: bytes) -> str:
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-STDERR_LINES_SHOWN:])[-500:] or "nothing on stderr"
