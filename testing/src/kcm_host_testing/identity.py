"""Who is who on the servers of the kit: users with tokens, the keys and the certificates."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class User:
    """One user that the API server knows by a token."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


ADMIN = "admin"
MANAGER = "kube-controller-manager"
PLAIN = ("alice", "bob", "carol")
"""Users without any permission but those that a test grants them."""


def users(extra: Sequence[str] = ()) -> dict[str, User]:
    """
    The users of one server by the name that the kit uses for them.

    `admin` may do everything, `kube-controller-manager` what the reference may, the others
    nothing until a test binds roles to them.
    """
    known = {
        ADMIN: User(ADMIN, ("system:masters",)),
        MANAGER: User("system:kube-controller-manager"),
    }
    return known | {name: User(name) for name in (*PLAIN, *extra)}


def write_tokens(path: Path, known: dict[str, User]) -> None:
    """Write the file for `--token-auth-file`."""
    lines = [f'{u.token},{u.name},{u.name},"{",".join(u.groups)}"\n' for u in known.values()]
    path.write_text("".join(lines))
    path.chmod(0o600)


def write_service_account_key(path: Path) -> None:
    """
    Write a fresh P-256 key for service account tokens.

    The API server signs with it, and takes its public half from the same file.
    """
    _write_secret(path, trustme.CA().private_key_pem)


def write_server_certificate(authority: Path, server: Path) -> None:
    """Write a fresh authority, and key and certificate of a server at 127.0.0.1 issued by it."""
    made = trustme.CA()
    made.cert_pem.write_to_path(authority)
    _write_secret(server, made.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem)


def _write_secret(path: Path, pem: trustme.Blob) -> None:
    path.touch(mode=0o600)
    pem.write_to_path(path)
