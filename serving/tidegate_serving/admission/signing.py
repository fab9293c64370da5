"""Keys as PEM files, and verdicts signed with them: Ed25519, in DSSE envelopes.

The gate writes verdicts beside version directories; whoever has public keys only reads them through `read_verdict`, or
through `admittance` where a key ring says which keys count.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.admission.envelope import Envelope, key_id, open_envelope, seal
from tidegate_serving.admission.verdict import Verdict
from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotAdmitted, NotFound, Tampered

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "PAYLOAD_TYPE",
    "key_id",
    "load_private_key",
    "load_public_key",
    "make_keys",
    "open_verdict",
    "read_verdict",
    "write_verdict",
]

PAYLOAD_TYPE = "application/vnd.tidegate.verdict+json"
_CURE = "run `tidegate validate` on this version"
_MAKE = "make one with `tidegate keys new`"


def make_keys(private: Path, public: Path) -> None:
    """Writes a new key pair as PEM; the private file for its owner only. AlreadyExists rather than overwrite."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    open_text = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for path in (private, public):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise AlreadyExists(_taken(path))
    for path, data, mode in ((private, secret, 0o600), (public, open_text, 0o644)):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError as error:
            raise AlreadyExists(_taken(path)) from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def _taken(path: Path) -> str:
    return f"{path} exists already: give the new key another name, or rotate with `tidegate keys rotate`"


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """A private key. Raises NotFound or InvalidInput naming the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} is no PEM private key ({error}): {_MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{path} is no Ed25519 key: {_MAKE}")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """A public key. Raises NotFound or InvalidInput naming the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_read_key(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is no PEM public key ({error}): {_MAKE}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} is no Ed25519 key: {_MAKE}")
    return key


def write_verdict(verdict: Verdict, path: Path, key: Ed25519PrivateKey) -> str:
    """Signs the verdict and renames the envelope into place; returns the SHA-256 of the envelope's bytes in hex."""
    return seal(verdict.to_dict(), PAYLOAD_TYPE, path, key)


def open_verdict(path: Path) -> Envelope:
    """A verdict's envelope, nothing checked yet. NotAdmitted or Tampered, naming the file."""
    return open_envelope(path, PAYLOAD_TYPE, _CURE)


def read_verdict(path: Path, keys: Sequence[Ed25519PublicKey]) -> Verdict:
    """The verdict in an envelope that one of `keys` signed.

    Raises NotAdmitted where there is no envelope or no trusted signature, Tampered where bytes were changed; both
    name the file. Whether the verdict allows its version is for the caller to ask.
    """
    envelope = open_verdict(path)
    trusted = {key_id(key): key for key in keys}
    known = envelope.signatures.keys() & trusted.keys()
    if not known:
        signers = ", ".join(envelope.signatures) or "nobody"
        raise NotAdmitted(f"{path} is signed by {signers}, which is not trusted here: add the validator's public key")
    if not any(envelope.signed_by(name, trusted[name]) for name in known):
        raise Tampered(f"{path} was changed after it was signed: {_CURE} again")
    return Verdict.from_dict(envelope.document(), str(path))


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"key file {path} is missing: make a pair with `tidegate keys new`") from error
