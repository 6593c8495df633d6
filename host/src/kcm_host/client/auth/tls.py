"""TLS to the API server: client certificates, certificate pem and their dates."""

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

from kcm_host.client.errors import ConnectionProblem

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]{1,100000})-----END CERTIFICATE-----")
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
#: Number of elements between version and validity: serial number, algorithm, issuer.
_BEFORE_TIMES = 3


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period of a certificate."""

    not_before: dt.datetime
    not_after: dt.datetime

    def problem(self, now: float) -> str:
        """Return why it is invalid at a Unix time, with the dates; empty when it is valid."""
        if now > self.not_after.timestamp():
            return f"has expired: it was valid from {self.not_before} to {self.not_after}"
        if now < self.not_before.timestamp():
            return f"is not valid yet: it will be from {self.not_before} to {self.not_after}"
        return ""


def validity_of(pem: bytes) -> Validity | None:
    """
    Return the validity of the first certificate in a PEM text, None when it cannot be read.

    Python's own `ssl` reads the validity of CA and server certificates only.
    """
    found = _PEM.search(pem)
    if found is None:
        return None
    try:
        certificate = base64.b64decode(b"".join(found[1].split()), validate=True)
        return _validity(certificate)
    except (binascii.Error, ValueError, IndexError, OverflowError):
        # Only for the text of a warning: a certificate that this reader does not understand may
        # still be fine for OpenSSL.
        return None


def _validity(certificate: bytes) -> Validity:
    signed = _contents_of(_contents_of(certificate))
    if signed[0] == _VERSION:
        signed = _following(signed)
    for _ in range(_BEFORE_TIMES):
        signed = _following(signed)
    times = _contents_of(signed)
    return Validity(_time(times), _time(_following(times)))


def _time(der: bytes) -> dt.datetime:
    text, _ = _split_element(der)
    form = "%y%m%d%H%M%SZ" if der[0] == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return dt.datetime.strptime(text.decode("ascii"), form).replace(tzinfo=dt.UTC)


def _contents_of(der: bytes) -> bytes:
    if der[0] != _SEQUENCE:
        raise ValueError("not a sequence")
    return _split_element(der)[0]


def _following(der: bytes) -> bytes:
    return _split_element(der)[1]


def _split_element(der: bytes) -> tuple[bytes, bytes]:
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
    The CA certificates that the server's certificate is verified with.

    `pem` is None for the system's trust store; `place` names the source in messages. `insecure`
    disables all verification of the server.
    """

    pem: str | None = None
    place: str = SYSTEM_CA_BUNDLE
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class KeyPair:
    """
    The files of a client certificate and its key.

    `reloadable` files stay on disk and may be replaced by a newer pair; others are temporary and
    read once.
    """

    certificate: Path
    key: Path
    place: str
    reloadable: bool


class ClientTls:
    """
    The TLS contexts for one server, cached.

    A new context is created only when the client certificate has changed, so that connections
    stay in use. Raise ConnectionProblem for unusable PEM.
    """

    def __init__(self, ca_bundle: CABundle, pair: KeyPair | None = None) -> None:
        self._ca_bundle = ca_bundle
        self._pair = pair
        self._file_stamps = self._read_file_stamps()
        self._validity: Validity | None = None
        self._context = self._build_context()
        self._given_pair: tuple[bytes, ssl.SSLContext] | None = None

    @property
    def validity(self) -> Validity | None:
        """The validity of the client certificate, None without one and when it cannot be read."""
        return self._validity

    @property
    def reloadable(self) -> bool:
        """True if the files of the client certificate may be replaced."""
        return self._pair is not None and self._pair.reloadable

    @property
    def has_certificate(self) -> bool:
        """True if the context has a client certificate, so that no headers are needed."""
        return self._pair is not None

    def context(self) -> ssl.SSLContext:
        """Return the context with the configured client certificate, if there is one."""
        if self.reloadable and (stamps := self._read_file_stamps()) != self._file_stamps:
            self._context = self._build_context()
            self._file_stamps = stamps
        return self._context

    def context_with_pair(self, certificate: str, key: str, *, place: str) -> ssl.SSLContext:
        """Return a context with this PEM pair, which an exec plugin has printed."""
        digest = hashlib.sha256(f"{certificate}\0{key}".encode()).digest()
        # An exec plugin prints the same pair again and again. A new context each time would open
        # new connections for all requests.
        if self._given_pair is None or self._given_pair[0] != digest:
            context = _server_context(self._ca_bundle)
            with private_folder() as folder:
                pair = KeyPair(folder / "certificate", folder / "key", place, reloadable=False)
                pair.certificate.write_text(certificate, encoding="utf-8")
                pair.key.write_text(key, encoding="utf-8")
                _load_pair(context, pair)
            self._given_pair = (digest, context)
        return self._given_pair[1]

    def _build_context(self) -> ssl.SSLContext:
        context = _server_context(self._ca_bundle)
        if self._pair is not None:
            _load_pair(context, self._pair)
            self._validity = validity_of(self._pair.certificate.read_bytes())
        return context

    def _read_file_stamps(self) -> tuple[tuple[int, int], ...]:
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
    """Yield a temporary folder that only this user can access, and remove it afterwards."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="kcm-host-")
    except OSError as error:
        raise ConnectionProblem(
            f"certificates cannot be prepared: {error.strerror or error}; set TMPDIR to a folder "
            f"that can be written"
        ) from None
    with folder as name:
        yield Path(name)


def _server_context(ca_bundle: CABundle) -> ssl.SSLContext:
    try:
        # Never an empty text: that would mean the system's trust store.
        given = None if ca_bundle.pem is None else f"{ca_bundle.pem}\n"
        context = ssl.create_default_context(cadata=given)
    except (ssl.SSLError, ValueError):
        raise ConnectionProblem(
            f"{ca_bundle.place} holds no usable PEM certificate; put the certificate of the API "
            f"server's authority there"
        ) from None
    if ca_bundle.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # As in Go: any listed certificate is a trust anchor, and pem made before RFC 5280 was
    # enforced (Python 3.13 does) are accepted; kubeadm and self-signed clusters have both.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # As Go's client, which every API server supports.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # There is no HTTP/2 here, which API servers would choose.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
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
