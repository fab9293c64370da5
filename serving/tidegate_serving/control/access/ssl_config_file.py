"""TensorFlow Serving's SSLConfig: a file in text format that holds the PEM texts of the gRPC endpoint's TLS.

REST stays in plain text beside it, as there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.connection import OTHERS_MAY_READ
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.control.access.access_file import stamp_of
from tidegate_serving.control.access.certificate_files import Pem, certificates, check_pair
from tidegate_serving.tensorflow_serving.text_files import parse_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SslConfigFile:
    """The file that config key `grpc_ssl_config` names, or the model server's flag `--ssl_config_file`. It is called
    `certificate`, as in `CertificateFiles`, for that is in it, too."""

    certificate: Path

    def stamps(self) -> tuple[object, ...]:
        """What tells one state of the file from another."""
        return (stamp_of(self.certificate),)

    def read(self) -> Pem:
        """NotFound and InvalidInput, naming file and field, for what cannot be used."""
        place = f"grpc_ssl_config {self.certificate}"
        config = parse_text(self._text(place), "tensorflow.serving.SSLConfig", place)
        for field in ("server_key", "server_cert"):
            if not getattr(config, field):
                raise InvalidInput(f"{place} has no {field}: write the text of a PEM file there, \\n between its lines")
        certificate, key = config.server_cert.encode(), config.server_key.encode()
        check_pair(certificate, key, f"server_cert of {place}", f"server_key of {place}")
        if config.client_verify and not config.custom_ca:
            raise InvalidInput(
                f"{place} has client_verify without custom_ca: write the certificate (PEM) of who signs clients' there"
            )
        if self.certificate.stat().st_mode & OTHERS_MAY_READ:
            _log.warning("%s, which holds a key, can be read by others on this machine: chmod 600 it", place)
        return Pem(certificate, key, self._client_ca(config.custom_ca, place) if config.client_verify else None)

    def _text(self, place: str) -> str:
        try:
            return read_small(self.certificate).decode()
        except FileNotFoundError as error:
            raise NotFound(
                f"{place} is missing: write TensorFlow Serving's SSLConfig there, or mend the path"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{place} cannot be read ({error}): let the engine read it, as text") from error

    def _client_ca(self, text: str, place: str) -> bytes:
        ca = text.encode()
        certificates(ca, f"custom_ca of {place}")
        return ca
