"""Signs with an Ed25519 key that HashiCorp Vault keeps, over the HTTP interface of its Transit engine.

Whoever validates holds a token that may sign, and never the key. https://developer.hashicorp.com/vault/api-docs/secret/transit
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unavailable

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_SECONDS = 20.0
_ALGORITHM = "ed25519"


@dataclass(frozen=True, slots=True)
class VaultKey:
    """A key in Vault's Transit engine, as a `Signer`.

    address: Vault's, such as https://vault.example.com:8200.
    key: its name, of type ed25519; its newest version signs.
    token: of a policy that may read `MOUNT/keys/KEY` and update `MOUNT/sign/KEY`. Never in texts.
    mount: where the Transit engine is mounted.
    namespace: of Vault Enterprise.
    ca: certificates (PEM) of who may sign Vault's own; None for those that this machine trusts.
    """

    address: str
    key: str
    token: str = field(repr=False)
    mount: str = "transit"
    namespace: str | None = None
    ca: Path | None = None

    def __post_init__(self) -> None:
        if not self.address.startswith(("https://", "http://")):
            raise InvalidInput(f"Vault's address is {self.address!r}: write it like https://vault.example.com:8200")
        for name in ("key", "mount", "token"):
            if not getattr(self, name):
                raise InvalidInput(f"{name} of the key in Vault at {self.address} is empty: name it")

    def __str__(self) -> str:
        return f"key {self.key} in Vault at {self.address}"

    def sign(self, data: bytes) -> bytes:
        """The signature, checked against the public key. Unavailable where Vault does not answer, PermissionRefused for
        a token that may not sign, NotFound for a key that is not there."""
        from cryptography.exceptions import InvalidSignature

        version, public = self._newest()
        body = {"input": base64.b64encode(data).decode(), "key_version": version}
        text = str(self._ask("sign", body).get("signature", ""))
        try:
            signature = base64.b64decode(text.split(":")[2], validate=True)
            public.verify(signature, data)
        except (IndexError, ValueError, InvalidSignature) as error:
            raise Unavailable(f"{self} answered {text[:24]!r}, which is not its signature: see Vault's log") from error
        return signature

    def public_key(self) -> Ed25519PublicKey:
        """That of the key's newest version."""
        return self._newest()[1]

    def _newest(self) -> tuple[int, Ed25519PublicKey]:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        found = self._ask("keys")
        if found.get("type") != _ALGORITHM:
            raise InvalidInput(f"{self} is of type {found.get('type')!r}: make one of type {_ALGORITHM}")
        version = max(map(int, found["keys"]))
        return version, Ed25519PublicKey.from_public_bytes(base64.b64decode(found["keys"][str(version)]["public_key"]))

    def _ask(self, action: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        import ssl
        import urllib.request
        from urllib.error import HTTPError

        path = "/".join(quote(part, safe="/") for part in (self.mount.strip("/"), action, self.key))
        headers = {"X-Vault-Token": self.token, "X-Vault-Request": "true", "Content-Type": "application/json"}
        if self.namespace:
            headers["X-Vault-Namespace"] = self.namespace
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address.rstrip('/')}/v1/{path}", data, headers)
        context = ssl.create_default_context(cafile=self.ca) if self.ca is not None else None
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:
                document: dict[str, Any] = json.load(answer)["data"]
        except HTTPError as error:
            error.close()
            raise self._refusal(error) from error
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable(f"Vault at {self.address} does not answer ({error}): is it running?") from error
        return document

    def _refusal(self, error: HTTPError) -> NotFound | PermissionRefused | Unavailable:
        if error.code == 404:
            return NotFound(
                f"{self} is missing at mount {self.mount!r}: make it with `vault write -f`, type {_ALGORITHM}"
            )
        if error.code in (400, 403):
            return PermissionRefused(
                f"{self} may not be used with this token (status {error.code}): give it a policy that reads "
                f"{self.mount}/keys/{self.key} and updates {self.mount}/sign/{self.key}"
            )
        return Unavailable(f"{self} answered with status {error.code}: is Vault sealed? See its log")
