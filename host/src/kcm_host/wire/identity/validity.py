"""From when to when a certificate is valid, read out of its PEM text."""

import base64
import binascii
import datetime as dt
import re
from dataclasses import dataclass

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
