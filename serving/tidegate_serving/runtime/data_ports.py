"""Who may ask on the data ports: reads their certificates and access file, and again whenever these change.

The data plane holds what the files say; what cannot be used is said, and what was there before stays.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tidegate_serving.config import EngineConfig
from tidegate_serving.connection import is_loopback
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.control.access.access_file import DATA_CERTIFICATE, DATA_NAME, Access, AccessFile
from tidegate_serving.control.access.certificate_files import CertificateFiles
from tidegate_serving.control.access.ssl_config_file import SslConfigFile
from tidegate_serving.requests.running_plane import PortSecurity
from tidegate_serving.requests.settings import AccessLines, PemTexts
from tidegate_serving.runtime.file_looks import FileLooks
from tidegate_serving.sources.problems import Reports

_log = logging.getLogger(__name__)


class Plane(Protocol):
    """What is told of changes."""

    def set_access(self, access: AccessLines) -> None:
        """Who may ask from now on. InvalidInput for what cannot be."""

    def set_tls(self, tls: PemTexts) -> None:
        """What the server shows from now on. InvalidInput for what cannot be."""


class DataPorts:
    """The files of `config`, read at once. NotFound and InvalidInput, naming the file, for what cannot be used."""

    def __init__(self, config: EngineConfig, problems: Reports) -> None:
        self._problems = problems
        self._files = _tls_files(config)
        self._stamps = None if self._files is None else self._files.stamps()
        self._access = None if config.data_access is None else AccessFile(config.data_access, problems, DATA_NAME)
        self._known = None if self._access is None else self._access.now()
        self._looks = FileLooks("data ports", self.look)
        _warn(config)

    def security(self) -> PortSecurity:
        """As the data plane starts with it."""
        tls = None if self._files is None else _pem(self._files)
        return PortSecurity(tls, None if self._known is None else lines(self._known))

    def watch(self, plane: Plane) -> None:
        """Looks at the files on a thread of its own from now on, if there are any."""
        self._plane = plane
        if self._files is not None or self._access is not None:
            self._looks.start()

    def stop(self) -> None:
        """Looks no more."""
        self._looks.stop()

    def look(self) -> None:
        """Tells the plane what has changed since the last look."""
        if self._access is not None and (access := self._access.now()) is not self._known:
            self._known = access
            try:
                self._plane.set_access(lines(access))
            except TidegateError as error:
                self._problems.report("", DATA_NAME, error)
        if self._files is not None and (stamps := self._files.stamps()) != self._stamps:
            self._stamps = stamps
            self._reread(self._files)

    def _reread(self, files: CertificateFiles | SslConfigFile) -> None:
        try:
            self._plane.set_tls(_pem(files))
        except TidegateError as error:
            kept = InvalidInput(f"{error.message}; the certificate from before is still shown")
            self._problems.report("", DATA_CERTIFICATE, kept)
        else:
            self._problems.settle("", DATA_CERTIFICATE)
            _log.info("the data ports show the certificate that is in %s now", files.certificate)


def lines(access: Access) -> AccessLines:
    """An access file as the data plane takes it."""
    tokens = [
        (
            line.sha256,
            line.name,
            line.role.value,
            list(line.models),
            times.from_text(line.expires, "expires").timestamp() if line.expires else None,
        )
        for line in access.token
    ]
    return tokens, [(line.subject, line.role.value, list(line.models)) for line in access.certificate]


def _tls_files(config: EngineConfig) -> CertificateFiles | SslConfigFile | None:
    if config.grpc_ssl_config is not None:
        return SslConfigFile(config.grpc_ssl_config)
    if config.data_certificate is None or config.data_key is None:
        return None
    return CertificateFiles(config.data_certificate, config.data_key, config.data_client_ca, "data")


def _pem(files: CertificateFiles | SslConfigFile) -> PemTexts:
    pem = files.read()
    return pem.certificate, pem.key, pem.client_ca, isinstance(files, SslConfigFile)


def _warn(config: EngineConfig) -> None:
    """Behind a proxy that ends TLS on this machine plain text may be meant, so it is no error."""
    if config.data_access is None or config.data_certificate is not None:
        return
    for name in ("rest_address",) if config.grpc_ssl_config else ("grpc_address", "rest_address"):
        address = getattr(config, name)
        if address and not is_loopback(address):
            _log.warning(
                "%s %s takes tokens in plain text, which others on the way can read: set data_certificate and data_key",
                name,
                address,
            )
