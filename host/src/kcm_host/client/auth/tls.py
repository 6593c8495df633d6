"""TLS to the API server: client certificates, certificate authorities and their dates."""

import base64
import binascii
import datetime as dt
import hashlib
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kcm_host.client.auth.errors import ConnectionProblem

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]{1,100000})-----END CERTIFICATE-----")
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
#: What stands before the times, once the version is passed: serial number, algorithm, issuer.
_BEFORE_TIMES = 3


@dataclass(frozen=True, slots=True)
class Validity:
    """The two times of a certificate."""

    not_before: dt.datetime
    not_after: dt.datetime

    def problem(self, now: float) -> str:
        """Return what is wrong with it at a Unix time, with the dates; empty when it is valid."""
        if now > self.not_after.timestamp():
            return f"has expired: it was valid from {self.not_before} to {self.not_after}"
        if now < self.not_before.timestamp():
            return f"is not valid yet: it will be from {self.not_before} to {self.not_after}"
        return ""


def validity_of(pem: bytes) -> Validity | None:
    """
    Return the times of the first certificate in a PEM text, None when they cannot be read.

    Python's own `ssl` reads the times of authorities and of servers only.
    """
    found = _PEM.search(pem)
    if found is None:
        return None
    try:
        certificate = base64.b64decode(b"".join(found[1].split()), validate=True)
        return _validity(certificate)
    except (binascii.Error, ValueError, IndexError, OverflowError):
        return None


def _validity(certificate: bytes) -> Validity:
    signed = _inside(_inside(certificate))
    if signed[0] == _VERSION:
        signed = _after(signed)
    for _ in range(_BEFORE_TIMES):
        signed = _after(signed)
    times = _inside(signed)
    return Validity(_time(times), _time(_after(times)))


def _time(der: bytes) -> dt.datetime:
    text, _ = _element(der)
    form = "%y%m%d%H%M%SZ" if der[0] == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return dt.datetime.strptime(text.decode("ascii"), form).replace(tzinfo=dt.UTC)


def _inside(der: bytes) -> bytes:
    if der[0] != _SEQUENCE:
        raise ValueError("not a sequence")
    return _element(der)[0]


def _after(der: bytes) -> bytes:
    return _element(der)[1]


def _element(der: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element of a DER text, and what follows it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    end = start + length
    if end > len(der):
        raise ValueError("cut short")
    return der[start:end], der[end:]


SYSTEM_CA_BUNDLE = "the system's trust store"


@dataclass(frozen=True, slots=True)
class CABundle:
    """
    How the server proves itself.

    `authorities` is PEM text, None for the system's trust store; `place` names where it came
    from. `insecure` switches every check of the server off.
    """

    authorities: str | None = None
    place: str = SYSTEM_CA_BUNDLE
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class KeyPair:
    """
    Files of a client certificate and its key.

    `lasting` says that they stay on disk and may be replaced by a newer pair; otherwise they
    are read once and may vanish.
    """

    certificate: Path
    key: Path
    place: str
    lasting: bool


class ClientTls:
    """
    Makes the TLS contexts for one server and keeps the newest of each sort.

    A context is a new object only when the client certificate changed, so connections are kept
    as long as they are valid. Raises ConnectionProblem for unusable PEM.
    """

    def __init__(self, trust: CABundle, pair: KeyPair | None = None) -> None:
        self._trust = trust
        self._pair = pair
        self._stamp = self._files_stamp()
        self._validity: Validity | None = None
        self._context = self._built()
        self._shown: tuple[bytes, ssl.SSLContext] | None = None

    @property
    def validity(self) -> Validity | None:
        """The times of the client certificate, None without one and when they cannot be read."""
        return self._validity

    @property
    def lasting(self) -> bool:
        """Whether the client certificate lives in files that may be replaced."""
        return self._pair is not None and self._pair.lasting

    @property
    def certified(self) -> bool:
        """Whether the context alone, without headers, says who we are."""
        return self._pair is not None

    def context(self) -> ssl.SSLContext:
        """Give the context with the configured client certificate, if there is one."""
        if self.lasting and (stamp := self._files_stamp()) != self._stamp:
            self._context = self._built()
            self._stamp = stamp
        return self._context

    def context_showing(self, certificate: str, key: str, *, place: str) -> ssl.SSLContext:
        """Give a context that shows this PEM pair instead, as exec plugins hand them out."""
        digest = hashlib.sha256(f"{certificate}\0{key}".encode()).digest()
        if self._shown is None or self._shown[0] != digest:
            context = _trusting(self._trust)
            with private_folder() as folder:
                pair = KeyPair(folder / "certificate", folder / "key", place, lasting=False)
                pair.certificate.write_text(certificate, encoding="utf-8")
                pair.key.write_text(key, encoding="utf-8")
                _load(context, pair)
            self._shown = (digest, context)
        return self._shown[1]

    def _built(self) -> ssl.SSLContext:
        context = _trusting(self._trust)
        if self._pair is not None:
            _load(context, self._pair)
            self._validity = validity_of(self._pair.certificate.read_bytes())
        return context

    def _files_stamp(self) -> tuple[tuple[int, int], ...]:
        if self._pair is None:
            return ()
        try:
            stats = [path.stat() for path in (self._pair.certificate, self._pair.key)]
        except OSError as error:
            raise ConnectionProblem(
                f"{self._pair.place} cannot be read: {error.strerror} '{error.filename}'; "
                f"restore the file"
            ) from None
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Lend a folder only this user can enter; it is gone afterwards, whatever happened."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="kcm-host-")
    except OSError as error:
        raise ConnectionProblem(
            f"certificates cannot be prepared: {error.strerror or error}; set TMPDIR to a folder "
            f"that can be written"
        ) from None
    with folder as name:
        yield Path(name)


def _trusting(trust: CABundle) -> ssl.SSLContext:
    try:
        # Never an empty text: that would silently mean the system's trust store.
        given = None if trust.authorities is None else f"{trust.authorities}\n"
        context = ssl.create_default_context(cadata=given)
    except (ssl.SSLError, ValueError):
        raise ConnectionProblem(
            f"{trust.place} holds no usable PEM certificate; put the certificate of the API "
            f"server's authority there"
        ) from None
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # As Go does: any listed certificate is an anchor, and authorities made before RFC 5280 was
    # enforced (Python 3.13 does) are accepted; kubeadm and self-signed clusters have both.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    def refuse() -> NoReturn:
        raise ConnectionProblem(
            f"the key of {pair.place} is encrypted, and nobody is here to type a passphrase; "
            f"store the key without one"
        )

    try:
        # Without a callback OpenSSL asks for the passphrase on the terminal.
        context.load_cert_chain(pair.certificate, pair.key, password=refuse)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        fact = "do not belong together" if mismatch else "are not a usable PEM pair"
        raise ConnectionProblem(
            f"certificate and key of {pair.place} {fact}; store a PEM certificate and its own key"
        ) from None
    except OSError as error:
        raise ConnectionProblem(
            f"{pair.place} cannot be read: {error.strerror}; restore the file"
        ) from None
