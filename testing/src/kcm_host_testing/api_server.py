"""A real kube-apiserver on an etcd prefix of its own."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kcm_host_testing import identity, kubeconfig, probe, release, workspace
from kcm_host_testing.audit import POLICY, AuditLog
from kcm_host_testing.etcd import Etcd
from kcm_host_testing.ports import free_port
from kcm_host_testing.process import PortTakenError, Process, ServerError

ATTEMPTS = 5
# Without a service account controller this plugin refuses every pod.
ALWAYS_OFF = ("ServiceAccount",)


class ApiServer:
    """
    One kube-apiserver process.

    A context manager; also `start()` and `close()`. Between `stop()` and the next `start()` the
    port, the certificate, the tokens and the objects stay as they are, so a test can take the
    server away and bring it back. Two servers on one etcd share nothing.
    """

    def __init__(
        self,
        etcd: Etcd,
        *,
        audit: bool = True,
        users: Sequence[str] = (),
        disable_admission: Sequence[str] = (),
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        compaction_interval: timedelta | None = None,
        extra_args: Sequence[str] = (),
        binaries: Path | None = None,
    ) -> None:
        """
        Describe a server; nothing starts yet.

        `users` are names of further users without permissions, beside `identity.PLAIN`.
        `compaction_interval` is how often the server drops old versions from etcd (5 minutes when
        left out). `extra_args` go to the command line as they are.
        """
        self._etcd = etcd
        self._program = (binaries or release.binaries_folder()) / "kube-apiserver"
        self._audit = audit
        self._users = identity.users(users)
        self._options = _options(
            disable_admission,
            feature_gates or {},
            runtime_config or {},
            compaction_interval=compaction_interval,
        )
        self._extra_args = list(extra_args)
        self._prefix = f"/t-{secrets.token_hex(6)}"
        self._folder: Path | None = None
        self._process: Process | None = None
        self._port = 0
        self._clients: list[Any] = []

    @property
    def folder(self) -> Path:
        """The server's own folder (logs, keys, kubeconfigs), there until `close`."""
        if self._folder is None:
            self._folder = workspace.new_folder("kube-apiserver")
            identity.write_tokens(self._folder / "tokens.csv", self._users)
            identity.write_service_account_key(self._folder / "sa.key")
            (self._folder / "audit-policy.json").write_text(POLICY)
        return self._folder

    @property
    def url(self) -> str:
        """The address, for example `https://127.0.0.1:21234`."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The port on 127.0.0.1; the same one after every restart."""
        return self._port

    @property
    def ca_file(self) -> Path:
        """The certificate that clients have to trust."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def admin_token(self) -> str:
        """The bearer token of the user who may do everything."""
        return self.token(identity.ADMIN)

    @property
    def audit(self) -> AuditLog:
        """What this server was asked so far; empty with `audit=False`."""
        return AuditLog(self.folder / "audit.log")

    @property
    def log(self) -> Path:
        """The file with all that the process wrote."""
        return self.folder / "kube-apiserver.log"

    @property
    def running(self) -> bool:
        """Return whether the process exists and has not ended."""
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        """The process id; `ServerError` when it does not run."""
        return self._running().pid

    def token(self, user: str = identity.ADMIN) -> str:
        """The bearer token of a user; `KeyError` names the users there are."""
        if user not in self._users:
            raise KeyError(
                f"no user '{user}' on this server, only {sorted(self._users)}; "
                f"start it with ApiServer(users=['{user}'])"
            )
        return self._users[user].token

    def kubeconfig(self, user: str = identity.ADMIN) -> Path:
        """The path of a kubeconfig for a user (see `identity.users`)."""
        return kubeconfig.write(
            self.folder / f"{user}.kubeconfig",
            url=self.url,
            user=user,
            token=self.token(user),
            ca_file=self.ca_file,
        )

    def client(self, user: str = identity.ADMIN) -> Any:
        """A `kubernetes.client.ApiClient` for a user; the server closes it at its own end."""
        from kubernetes import client  # noqa: PLC0415 - half a second that few tests need

        config = client.Configuration()
        config.host = self.url
        config.ssl_ca_cert = str(self.ca_file)
        config.api_key = {"authorization": f"Bearer {self.token(user)}"}
        made = client.ApiClient(config)
        self._clients.append(made)
        return made

    def start(self, *, timeout_seconds: float = 60.0) -> None:
        """
        Start and return when it is ready, with its first namespaces there.

        `ServerError` carries the end of the log when it is not ready in time.
        """
        for attempt in range(1, ATTEMPTS + 1):
            new_port = self._port == 0
            try:
                self._start_once(timeout_seconds)
            except PortTakenError:
                self.kill()
                if not new_port or attempt == ATTEMPTS:
                    raise
                self._port = 0
            except BaseException:
                self.kill()
                raise
            else:
                return

    def _start_once(self, timeout_seconds: float) -> None:
        if self._process is not None:
            raise ServerError("kube-apiserver was started already; stop it first")
        self._port = self._port or free_port()
        self._process = Process(self._command(), log=self.log)
        self._process.start()
        self._process.wait_until(self._ready, timeout_seconds=timeout_seconds)

    def _ready(self) -> bool:
        paths = ("readyz", "api/v1/namespaces/default", "api/v1/namespaces/kube-system")
        return self.ca_file.exists() and all(
            probe.answers(f"{self.url}/{path}", ca_file=self.ca_file, token=self.admin_token)
            for path in paths
        )

    def _command(self) -> list[str | Path]:
        folder = self.folder
        audit = [
            f"--audit-policy-file={folder / 'audit-policy.json'}",
            f"--audit-log-path={folder / 'audit.log'}",
            # Left out, it means 100 MB and then a new file, in which marks mean nothing.
            "--audit-log-maxsize=100000",
        ]
        return [
            self._program,
            f"--etcd-servers={self._etcd.url}",
            f"--etcd-prefix={self._prefix}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={folder / 'certs'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            *(audit if self._audit else []),
            *self._options,
            *self._extra_args,
        ]

    def _running(self) -> Process:
        return Process.started(self._process, "kube-apiserver")

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the process wrote."""
        return self._running().log_tail(lines)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self._running().pause()

    def resume(self) -> None:
        """Continue it after `pause`."""
        self._running().resume()

    def stop(self) -> None:
        """End it in order (SIGTERM, SIGKILL after 5 s); `start` brings it back."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL); `start` brings it back."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def expire_history(self) -> int:
        """
        Make every version that clients know so far too old, and give the first that is not.

        Compacting etcd alone changes nothing for clients, because the watch cache and its
        snapshots answer from memory; so the server is killed, etcd compacted and the server
        started with an empty cache. After that a watch from an old version gets an ERROR event
        with code 410, a list at an old version or with an old `continue` gets status 410. Open
        watches are cut by the restart. Takes about 3 s.
        """
        self.kill()
        revision = self._etcd.compact()
        self.start()
        return revision

    def close(self) -> None:
        """End it for good and remove its folder. Closing twice is fine."""
        self.kill()
        for made in self._clients:
            made.rest_client.pool_manager.clear()
        self._clients.clear()
        if self._folder is not None:
            workspace.remove_folder(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _options(
    disable_admission: Sequence[str],
    feature_gates: Mapping[str, bool],
    runtime_config: Mapping[str, bool],
    compaction_interval: timedelta | None,
) -> list[str]:
    options = [f"--disable-admission-plugins={','.join((*ALWAYS_OFF, *disable_admission))}"]
    if feature_gates:
        options.append(f"--feature-gates={_switches(feature_gates)}")
    if runtime_config:
        options.append(f"--runtime-config={_switches(runtime_config)}")
    if compaction_interval is not None:
        options.append(f"--etcd-compaction-interval={compaction_interval.total_seconds():g}s")
    return options


def _switches(values: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in values.items())
