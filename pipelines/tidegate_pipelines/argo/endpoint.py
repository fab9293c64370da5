"""Answers GET /v1/canaries/NAME/VERSION with the canary's result, as JSON whose field `state` decides.

`running` until the canary has ended, then `passed` or `refused`; the rest is what `canary.json` says. Beyond loopback
it speaks TLS alone, and to who has the token.
"""

from __future__ import annotations

import hmac
import json
import logging
import ssl
import sys
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tidegate_operators.steps.canary_turns import last_result
from tidegate_serving.connection import is_loopback
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId, is_name, is_version
from tidegate_validation.canary.judgement import CanaryResult

PREFIX = ("v1", "canaries")
_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Protection:
    """The endpoint's certificate and key (PEM), and the token that who asks has to show."""

    certificate: Path | None = None
    key: Path | None = None
    token: str | None = field(default=None, repr=False)

    def check(self, address: str) -> None:
        """InvalidInput for an address beyond loopback without TLS and a token."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidInput("certificate and key go together: give both, or neither")
        if not is_loopback(address) and (self.certificate is None or self.token is None):
            raise InvalidInput(
                f"address {address} can be reached from elsewhere: give certificate, key and token, or listen on "
                "127.0.0.1"
            )


class CanaryEndpoint:
    """Serves the results below a model repository until `close`. Raises InvalidInput for an address that cannot be,
    NotFound for a repository that is no folder here."""

    def __init__(self, root: Path, address: str, protection: Protection) -> None:
        protection.check(address)
        if not root.is_dir():
            raise NotFound(f"model repository {root} is no folder here: mend the path, or mount it")
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), _handler(root, protection.token))
        except (OSError, ValueError, OverflowError) as error:
            raise InvalidInput(
                f"address {address} cannot be listened on ({error}): use host:port that is free"
            ) from error
        if protection.certificate is not None and protection.key is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                tls.load_cert_chain(protection.certificate, protection.key)
            except OSError as error:
                self._server.server_close()
                raise InvalidInput(
                    f"certificate {protection.certificate} and key {protection.key} cannot be used ({error}): name a "
                    "pair of PEM files"
                ) from error
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"{host}:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answers until another thread calls `close`."""
        self._server.serve_forever()

    def close(self) -> None:
        """Ends `serve`, and with it the endpoint."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A caller who speaks no TLS, or goes away, is no reason for a traceback."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.info("a request of %s was not answered: %s", client_address, sys.exception())


def state_of(root: Path, name: str, version: str) -> dict[str, Any] | None:
    """What is known of a version's canary; None for a version that is not in the repository."""
    if not is_name(name) or not is_version(version):
        return None
    directory = version_directory(root, ServableId(name, int(version)))
    if not (directory / FILE_NAME).is_file():
        return None
    result: CanaryResult | None = last_result(directory)
    if result is None:
        return {"state": "running", "sentence": f"no canary of {name}:{version} has ended"}
    return {"state": "passed" if result.allowed else "refused", **result.to_dict()}


def _handler(root: Path, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_GET(self) -> None:
            shown = self.headers.get("Authorization", "").encode()
            if token is not None and not hmac.compare_digest(shown, f"Bearer {token}".encode()):
                self._say(HTTPStatus.UNAUTHORIZED, {"error": "show the token: Authorization: Bearer TOKEN"})
                return
            parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            try:
                found = state_of(root, *parts[2:]) if len(parts) == 4 and tuple(parts[:2]) == PREFIX else None
            except TidegateError as error:
                self._say(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": error.message})
                return
            if found is None:
                self._say(HTTPStatus.NOT_FOUND, {"error": "no such version: ask for /v1/canaries/NAME/VERSION"})
            else:
                self._say(HTTPStatus.OK, found)

        def _say(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            _log.debug("%s: %s", self.address_string(), format % args)

    return Handler
