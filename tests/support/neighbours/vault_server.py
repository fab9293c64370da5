"""A small server that speaks the part of HashiCorp Vault's HTTP interface that Transit keys are used by.

It keeps real Ed25519 keys and checks tokens as a policy would; Debian has no package of Vault itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.neighbours.http_server import http_server

TOKEN = "hvs.may-sign"


@dataclass
class Vault:
    """What the server keeps: the versions of each key by its path, and who came with what."""

    address: str = ""
    keys: dict[str, list[Ed25519PrivateKey]] = field(default_factory=dict)
    kind: str = "ed25519"
    sealed: bool = False
    forged: bool = False
    namespaces: list[str | None] = field(default_factory=list)

    def rotate(self, path: str = "transit/validator") -> None:
        """Makes a key, or its next version."""
        self.keys.setdefault(path, []).append(Ed25519PrivateKey.generate())

    def answer(self, method: str, path: str, token: str | None, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and document for a request."""
        mount, action, name = path.removeprefix("/v1/").rsplit("/", 2)
        versions = self.keys.get(f"{mount}/{name}")
        if self.sealed:
            return 503, {"errors": ["Vault is sealed"]}
        if token != TOKEN:
            return 403, {"errors": ["permission denied"]}
        if versions is None:
            return 404, {"errors": []}
        if (method, action) == ("GET", "keys"):
            publics = {str(number): _public(key) for number, key in enumerate(versions, start=1)}
            return 200, {"data": {"type": self.kind, "name": name, "keys": publics}}
        if (method, action) == ("POST", "sign"):
            number = int(body.get("key_version") or len(versions))
            key = Ed25519PrivateKey.generate() if self.forged else versions[number - 1]
            signature = base64.b64encode(key.sign(base64.b64decode(body["input"]))).decode()
            return 200, {"data": {"signature": f"vault:v{number}:{signature}", "key_version": number}}
        return 405, {"errors": ["unsupported operation"]}


def _public(key: Ed25519PrivateKey) -> dict[str, str]:
    return {"name": "ed25519", "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode()}


@contextmanager
def vault_server() -> Iterator[Vault]:
    """The server, on a free port, with the key `validator` at mount `transit`."""
    vault = Vault()
    vault.rotate()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            vault.namespaces.append(self.headers.get("X-Vault-Namespace"))
            status, document = vault.answer(self.command, self.path, self.headers.get("X-Vault-Token"), body)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve  # noqa: N815

    with http_server(Handler) as address:
        vault.address = f"http://{address}"
        yield vault
