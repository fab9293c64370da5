"""Keys as PEM files: Ed25519, made, read and called by an id.

The gate signs verdicts with a private key, people sign overrides; a key ring says whose public keys count.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidegate_serving.contract.errors import AlreadyExists, InvalidInput
from tidegate_serving.contract.plain_file import read_given
from tidegate_serving.files import file_error, make_folder, sync

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAKE = "make one with `tidegate keys new`"


def key_id(key: Ed25519PublicKey | bytes) -> str:
    """Short name of a public key or its 32 bytes: the first 16 hex digits of their SHA-256."""
    data = key if isinstance(key, bytes) else key.public_bytes_raw()
    return hashlib.sha256(data).hexdigest()[:16]


def make_keys(private: Path, public: Path) -> None:
    """Writes a new key pair as PEM; the private file for its owner only. AlreadyExists rather than overwrite.
    Where one cannot be written whole neither is there, and this raises as `files.make_folder` and `files.keep`."""
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
        make_folder(path.parent, "the folder of a key")
        if path.exists():
            raise AlreadyExists(_taken(path))
    made: list[Path] = []
    try:
        for path, data, mode in ((private, secret, 0o600), (public, open_text, 0o644)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            sync(path)
            sync(path.parent)
    except FileExistsError as error:
        _undo(made)
        raise AlreadyExists(_taken(path)) from error
    except OSError as error:
        _undo(made)
        raise file_error(error, path) from error


def _undo(made: Sequence[Path]) -> None:
    """Half a key, or one without its other half, is of no use, and would stand in the way of the next try."""
    for path in made:
        path.unlink()


def _taken(path: Path) -> str:
    return f"{path} exists already: give the new key another name, or rotate with `tidegate keys rotate`"


class Signer(Protocol):
    """What signs verdicts and overrides: a private key in this process, or somebody who keeps it (`VaultKey`)."""

    def sign(self, data: bytes) -> bytes:
        """The Ed25519 signature of the data."""

    def public_key(self) -> Ed25519PublicKey:
        """The other half, by which engines know whose signature it is."""


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """A private key. Raises NotFound or InvalidInput naming the file."""
    return read_private_key(_read_key(path), str(path))


def read_private_key(data: bytes, where: str) -> Ed25519PrivateKey:
    """A private key from PEM text that lies in no file, such as a secret's. InvalidInput naming where it is from."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{where} is no PEM private key ({error}): {_MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{where} is no Ed25519 key: {_MAKE}")
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


def _read_key(path: Path) -> bytes:
    return read_given(path, "key file", "make a pair with `tidegate keys new`")
