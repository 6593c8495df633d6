"""Who may talk to an API server of the kit: users with tokens, and the service account key."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


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


def write_service_account_key(private: Path, public: Path) -> None:
    """Write a fresh P-256 pair for signing service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    private.chmod(0o600)
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
