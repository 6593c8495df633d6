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
from kcm_host.client.auth.errors import ConnectionProblem
from kcm_host.client.auth.kubeconfig import Chosen, Exec
from kcm_host.client.auth.tls import ClientTls
from kcm_host.client.json_scan import DECODE_ERRORS

#: How long the end of a killed program is waited for.
END_LIMIT = timedelta(seconds=1)
#: How often is looked whether a program that has closed its output has ended.
LOOK_AGAIN = timedelta(milliseconds=10)
#: Of what a program writes to stderr the last so many bytes are kept.
LONGEST_COMPLAINT = 64 << 10


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program that ended by itself wrote, and its exit code."""

    code: int
    output: bytes
    complaint: bytes


class TooMuchOutput(Exception):
    """The program wrote more to stdout than it may, and was killed."""


async def run(
    command: Sequence[str], *, environ: Mapping[str, str], limit: timedelta, most: int
) -> Ended:
    """
    Run a program to its end.

    Its stdin is empty, and it leads a session of its own, so that it and its children are ended
    together: after `limit` (raises TimeoutError), when it writes more than `most` bytes to stdout
    (raises TooMuchOutput), and when the caller is cancelled. Raises OSError when it cannot be
    started.
    """
    # Not asyncio's own: cancelled while it starts a program, that waits for ever.
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
                output, complaint = await asyncio.gather(
                    _head(process.stdout, most, process.pid), _tail(process.stderr)
                )
                await _end_of(process)
            ended = True
        finally:
            # Also when only children are left, which hold the pipes open.
            if not ended:
                _kill(process.pid)
                with suppress(TimeoutError):
                    await asyncio.wait_for(_end_of(process), END_LIMIT.total_seconds())
    if len(output) > most:
        raise TooMuchOutput
    return Ended(process.returncode, output, complaint)


async def _end_of(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:  # noqa: ASYNC110 - no event that every system has
        await asyncio.sleep(LOOK_AGAIN.total_seconds())


async def _head(pipe: IO[bytes], most: int, group: int) -> bytes:
    """Return all that comes; when it is more than `most` bytes the group is killed."""
    parts, size = [], 0
    while size <= most and (part := await _part(pipe)):
        parts.append(part)
        size += len(part)
    if size > most:
        _kill(group)
    return b"".join(parts)


async def _tail(pipe: IO[bytes]) -> bytes:
    """Return the end of what comes; all of it is read, or the program would stop in the middle."""
    tail = b""
    while part := await _part(pipe):
        tail = (tail + part)[-LONGEST_COMPLAINT:]
    return tail


async def _part(pipe: IO[bytes]) -> bytes:
    """Return what can be read next; empty at the end."""
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
#: More than any credential needs.
LONGEST_OUTPUT = 1 << 20
#: How much of what a failed plugin wrote to stderr is shown.
LAST_LINES = 3


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials a plugin printed."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    def __repr__(self) -> str:
        return "Status(...)"


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin prints to stdout."""

    api_version: str
    kind: str
    status: Status


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """
    A source of credentials: `fetch` runs the program once.

    The program never gets a terminal, and is killed when 60 s are over or the loop ends. A start
    that waits for it ends earlier, and names it.
    """

    stanza: Exec
    command: str
    place: str
    variables: Mapping[str, str] = field(repr=False)
    tls: ClientTls | None
    clock: Clock
    time_limit: timedelta = TIME_LIMIT

    def refuse_missing(self) -> None:
        """Raise ConnectionProblem if there is no such program; nothing is run."""
        if shutil.which(self.command, path=os.pathsep.join(os.get_exec_path(self.variables))):
            return
        if os.sep not in self.command:
            raise self._problem("is not on PATH")
        exists = Path(self.command).exists()
        raise self._problem("is no program that may be run" if exists else "does not exist")

    async def fetch(self) -> RequestCredentials:
        """Give the printed credentials; raises ConnectionProblem that names the program."""
        return self.access(await self._output())

    def access(self, output: bytes) -> RequestCredentials:
        """Return what a run of the program printed, as credentials; raises ConnectionProblem."""
        return self._access(self._decoded(output))

    async def _output(self) -> bytes:
        command = [self.command, *self.stanza.args]
        try:
            ended = await run(
                command, environ=self.variables, limit=self.time_limit, most=LONGEST_OUTPUT
            )
        except TimeoutError:
            limit = f"{self.time_limit.total_seconds():g} s"
            raise self._problem(f"did not end within {limit} and was killed") from None
        except OSError as error:
            raise self._problem(f"cannot be started: {error.strerror}") from None
        except ValueError as error:
            # Characters that no name of a program and no argument can have.
            raise self._problem(f"cannot be started: {error}") from None
        except TooMuchOutput:
            raise self._problem(f"printed more than {LONGEST_OUTPUT >> 20} MiB") from None
        if ended.code:
            complaint = _last_lines(ended.complaint)
            raise self._problem(f"ended with exit code {ended.code}: {complaint}")
        return ended.output

    def _decoded(self, output: bytes) -> Status:
        try:
            answer = msgspec.json.decode(output, type=ExecCredential)
        except DECODE_ERRORS as error:
            # A decode error names positions and types, never the text itself.
            raise self._problem(f"did not print an ExecCredential: {error}") from None
        expected = (self.stanza.api_version, "ExecCredential")
        if (answer.api_version, answer.kind) != expected:
            raise self._problem(
                f"printed '{answer.kind}' of '{answer.api_version}', but the kubeconfig asks for "
                f"'ExecCredential' of '{self.stanza.api_version}'"
            )
        return answer.status

    def _access(self, status: Status) -> RequestCredentials:
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
            context = self.tls.context_showing(certificate, key, place=place)
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
        hint = " ".join(self.stanza.install_hint.split())
        remedy = f"; {hint}" if hint else ""
        return ConnectionProblem(
            f"exec plugin '{self.command}' of {self.place} {fact}; see that the command works "
            f"without a terminal{remedy}"
        )


def exec_plugin(
    chosen: Chosen, *, environ: Mapping[str, str], tls: ClientTls | None, clock: Clock
) -> ExecPlugin:
    """Give the source for the chosen user's `exec`; raises ConnectionProblem if it cannot work."""
    stanza = chosen.user.exec
    assert stanza is not None
    place = f"exec of {chosen.user_place}"
    if not stanza.command:
        raise ConnectionProblem(f"{place} names no command; add 'command: PROGRAM'")
    if stanza.api_version not in VERSIONS:
        raise ConnectionProblem(
            f"{place} asks for apiVersion '{stanza.api_version}', which is not supported; use "
            f"'{VERSIONS[0]}' with a plugin that knows it"
        )
    if stanza.interactive_mode not in {"Never", "IfAvailable"}:
        raise ConnectionProblem(
            f"{place} has interactiveMode '{stanza.interactive_mode}', but nobody sits at a "
            f"terminal here; use a plugin that works with 'Never' or 'IfAvailable'"
        )
    info = {
        "apiVersion": stanza.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, **_cluster_info(chosen)},
    }
    variables = {item.name: item.value for item in stanza.env}
    plugin = ExecPlugin(
        stanza,
        _command(stanza.command, chosen.user_file.absolute().parent),
        chosen.user_place,
        {**environ, **variables, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
        tls,
        clock,
    )
    plugin.refuse_missing()
    return plugin


def _command(command: str, folder: Path) -> str:
    # A bare name is looked up in PATH; only names with a folder are relative to the kubeconfig.
    return str(folder / command) if os.sep in command else command


def _cluster_info(chosen: Chosen) -> dict[str, Any]:
    stanza = chosen.user.exec
    if stanza is None or not stanza.provide_cluster_info:
        return {}
    cluster = chosen.cluster
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
    return " / ".join(lines[-LAST_LINES:])[-500:] or "nothing on stderr"
