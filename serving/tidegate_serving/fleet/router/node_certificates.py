"""TLS from a router to its nodes: reads the certificates that the table `[fleet]` names, and again when they change.

What cannot be used is said, and what was there before stays. Connections that are open stay as they are.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tidegate_serving.config import FleetConfig
from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.control.access.access_file import stamp_of
from tidegate_serving.control.access.certificate_files import certificates, check_pair, read_pem
from tidegate_serving.requests.forwarder import NodePem
from tidegate_serving.runtime.file_looks import FileLooks
from tidegate_serving.sources.problems import Reports

PROBLEM = "node certificates"
_log = logging.getLogger(__name__)


class _Told(Protocol):
    def set_node_tls(self, tls: NodePem) -> None:
        """Connections to nodes begin with this from now on. ValueError for what cannot be."""


class NodeCertificates:
    """The files of a router's config, if it names any."""

    def __init__(self, config: FleetConfig, problems: Reports) -> None:
        self._config = config
        self._problems = problems
        self._stamps = self._now()
        self._told: _Told | None = None
        self._looks = FileLooks(PROBLEM, self.look)

    def read(self) -> NodePem | None:
        """None without TLS. NotFound and InvalidInput, naming key and file, for what cannot be used."""
        config = self._config
        if config.node_ca is None:
            return None
        ca = read_pem(config.node_ca, "fleet.node_ca")
        certificates(ca, f"fleet.node_ca {config.node_ca}")
        if config.node_certificate is None or config.node_key is None:
            return ca, None, config.node_server_name or None
        pair = (
            read_pem(config.node_certificate, "fleet.node_certificate"),
            read_pem(config.node_key, "fleet.node_key"),
        )
        shown, secret = f"fleet.node_certificate {config.node_certificate}", f"fleet.node_key {config.node_key}"
        check_pair(*pair, shown, secret)
        return ca, pair, config.node_server_name or None

    def watch(self, told: _Told) -> None:
        """Looks at the files from now on, if there are any."""
        self._told = told
        if self._stamps:
            self._looks.start()

    def stop(self) -> None:
        """Looks no more."""
        self._looks.stop()

    def look(self) -> None:
        """Tells what has changed since the last look."""
        stamps = self._now()
        if self._told is None or stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            if (pem := self.read()) is not None:
                self._told.set_node_tls(pem)
        except (TidegateError, ValueError) as error:
            kept = InvalidInput(f"{error}; connections to nodes begin with the certificates from before")
            self._problems.report("", PROBLEM, kept)
        else:
            self._problems.settle("", PROBLEM)
            _log.info("connections to nodes begin with the certificates that are in their files now")

    def _now(self) -> tuple[object, ...]:
        paths = (self._config.node_ca, self._config.node_certificate, self._config.node_key)
        return tuple(stamp_of(path) for path in paths if path is not None)
