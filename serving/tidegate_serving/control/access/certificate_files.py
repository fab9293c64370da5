"""The files of a port's TLS: certificate, key and client authority (PEM), held against each other and the clock.

Control port and data ports read them at their start, and again when they change.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.connection import OTHERS_MAY_READ
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import read_given
from tidegate_serving.control.access.access_file import stamp_of

if TYPE_CHECKING:
    from cryptography import x509

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pem:
    """What the files say."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files; with `client_ca` every client has to show a certificate that one of those in it has signed. `port`,
    `control` or `data`, is whose config keys messages name."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    port: str = "control"

    def stamps(self) -> tuple[object, ...]:
        """What tells one state of the files from another."""
        return tuple(stamp_of(path) for path in (self.certificate, self.key, self.client_ca) if path is not None)

    def read(self) -> Pem:
        """NotFound and InvalidInput, naming the file, for what cannot be used."""
        shown, secret = f"{self.port}_certificate {self.certificate}", f"{self.port}_key {self.key}"
        certificate = read_pem(self.certificate, f"{self.port}_certificate")
        key = read_pem(self.key, f"{self.port}_key")
        check_pair(certificate, key, shown, secret)
        ca = None if self.client_ca is None else read_pem(self.client_ca, f"{self.port}_client_ca")
        if ca is not None:
            certificates(ca, f"{self.port}_client_ca {self.client_ca}")
        if self.key.stat().st_mode & OTHERS_MAY_READ:
            _log.warning("%s can be read by others on this machine: chmod 600 it", secret)
        return Pem(certificate, key, ca)


def check_pair(certificate: bytes, key: bytes, shown: str, secret: str) -> None:
    """InvalidInput, with the names `shown` and `secret`, where they are no PEM, no pair, or do not hold now."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    first = certificates(certificate, shown)[0]
    try:
        private = load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{secret} is no PEM key without a password ({error}): write one") from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if first.public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise InvalidInput(f"{secret} does not belong to {shown}: replace both")
    now = times.now()
    if not first.not_valid_before_utc <= now <= first.not_valid_after_utc:
        since, until = map(times.to_text, (first.not_valid_before_utc, first.not_valid_after_utc))
        raise InvalidInput(
            f"{shown} is valid from {since} to {until}, and this machine's clock says {times.to_text(now)}: renew "
            "it, or set the clock"
        )


def read_pem(path: Path, what: str) -> bytes:
    """A file that the config key `what` names. NotFound or InvalidInput, naming both, where it cannot be read."""
    return read_given(path, what, "put a PEM file there that the engine may read")


def certificates(data: bytes, what: str) -> list[x509.Certificate]:
    """One at least; InvalidInput, which calls them `what`, where there is none."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise InvalidInput(f"{what} has no PEM certificate ({error}): write one") from error
