"""The control port's TLS: certificate, key and client authority from files, read again when they change.

gRPC asks for them with each new connection. What cannot be used is said, and what was there before stays.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from tidegate_serving.connection import OTHERS_MAY_READ
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.control.access.access_file import CERTIFICATE, stamp_of
from tidegate_serving.sources.problems import Reports

if TYPE_CHECKING:
    from cryptography import x509

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files; with `client_ca` every client has to show a certificate that one of those in it has signed."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def stamps(self) -> tuple[object, ...]:
        """What tells one state of the files from another."""
        return tuple(stamp_of(path) for path in (self.certificate, self.key, self.client_ca) if path is not None)

    def read(self) -> grpc.ServerCertificateConfiguration:
        """NotFound and InvalidInput, naming the file, for what cannot be used."""
        certificate, key = _read(self.certificate, "control_certificate"), _read(self.key, "control_key")
        _check_pair(self, certificate, key)
        ca = None if self.client_ca is None else _read(self.client_ca, "control_client_ca")
        if ca is not None and self.client_ca is not None:
            _certificates(ca, self.client_ca, "control_client_ca")
        if self.key.stat().st_mode & OTHERS_MAY_READ:
            _log.warning("control_key %s can be read by others on this machine: chmod 600 it", self.key)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)


class ServerCertificates:
    """The files as they are now. Raises as `CertificateFiles.read` at first."""

    def __init__(self, files: CertificateFiles, problems: Reports) -> None:
        self._files = files
        self._problems = problems
        self._lock = threading.Lock()
        self._stamps = files.stamps()
        self._first = files.read()

    def credentials(self) -> grpc.ServerCredentials:
        """What a gRPC server listens with."""
        fetch: Any = self.changed
        return grpc.dynamic_ssl_server_credentials(self._first, fetch, self._files.client_ca is not None)

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """New ones where the files have changed and can be used, else None."""
        with self._lock:
            stamps = self._files.stamps()
            if stamps == self._stamps:
                return None
            self._stamps = stamps
            try:
                found = self._files.read()
            except TidegateError as error:
                kept = InvalidInput(f"{error.message}; the certificate from before is still shown")
                self._problems.report("", CERTIFICATE, kept)
                return None
        self._problems.settle("", CERTIFICATE)
        _log.info("the control port shows the certificate that is in %s now", self._files.certificate)
        return found


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"{what} {path} is missing: put the PEM file there") from error
    except OSError as error:
        raise InvalidInput(f"{what} {path} cannot be read ({error.strerror}): let the engine read it") from error


def _check_pair(files: CertificateFiles, certificate: bytes, key: bytes) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    first = _certificates(certificate, files.certificate, "control_certificate")[0]
    try:
        private = load_pem_private_key(key, None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"control_key {files.key} is no PEM key without a password ({error}): write one") from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if first.public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise InvalidInput(
            f"control_key {files.key} does not belong to control_certificate {files.certificate}: replace both"
        )
    now = times.now()
    if not first.not_valid_before_utc <= now <= first.not_valid_after_utc:
        since, until = map(times.to_text, (first.not_valid_before_utc, first.not_valid_after_utc))
        raise InvalidInput(
            f"control_certificate {files.certificate} is valid from {since} to {until}, and this machine's clock says "
            f"{times.to_text(now)}: renew it, or set the clock"
        )


def _certificates(data: bytes, path: Path, what: str) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise InvalidInput(f"{what} {path} has no PEM certificate ({error}): write one") from error
