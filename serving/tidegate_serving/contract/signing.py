"""Signs a verdict's exact bytes with the validator's Ed25519 key, and checks them: DSSE envelopes, keys as PEM files.

The gate writes envelopes beside version directories; the engine, which has public keys only, reads them through
`read_verdict`. Envelope and pre-authentication encoding follow the DSSE protocol, version 1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_serving.contract.errors import AlreadyExists, InvalidInput, NotAdmitted, NotFound, Tampered
from tidegate_serving.contract.verdict import Verdict

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.tidegate.verdict+json"


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
    for path, data, mode in ((private, secret, 0o600), (public, open_text, 0o644)):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError as error:
            raise AlreadyExists(f"{path} exists already: remove it first if the key shall be replaced") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """The validator's key. Raises NotFound or InvalidInput naming the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} is no PEM private key ({error}): make one with `tidegate keys`") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{path} is no Ed25519 key: make one with `tidegate keys`")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """A validator's public key. Raises NotFound or InvalidInput naming the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_read_key(path))
    except ValueError as error:
        raise InvalidInput(f"{path} is no PEM public key ({error}): make one with `tidegate keys`") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} is no Ed25519 key: make one with `tidegate keys`")
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """Short name of a key: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def write_verdict(verdict: Verdict, path: Path, key: Ed25519PrivateKey) -> str:
    """Signs the verdict and renames the envelope into place; returns the SHA-256 of the envelope's bytes in hex."""
    payload = json.dumps(verdict.to_dict(), sort_keys=True).encode()
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_id(key.public_key()), "sig": base64.b64encode(key.sign(_encoding(payload))).decode()}
        ],
    }
    data = (json.dumps(envelope, indent=1) + "\n").encode()
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.replace(path)
    return hashlib.sha256(data).hexdigest()


def read_verdict(path: Path, keys: Sequence[Ed25519PublicKey]) -> Verdict:
    """The verdict in an envelope that one of `keys` signed.

    Raises NotAdmitted where there is no envelope or no trusted signature, Tampered where bytes were changed; both
    name the file. Whether the verdict allows its version is for the caller to ask.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise NotAdmitted(f"{path} is missing: run `tidegate validate` on this version first") from error
    try:
        envelope = json.loads(data)
        payload = _exact_base64(envelope["payload"])
        signatures = {entry["keyid"]: _exact_base64(entry["sig"]) for entry in envelope["signatures"]}
        right_type = envelope["payloadType"] == PAYLOAD_TYPE
    except (ValueError, KeyError, TypeError) as error:
        raise Tampered(f"{path} is no signed verdict ({error}): run `tidegate validate` again") from error
    if not right_type:
        raise Tampered(f"{path} carries payload type {envelope['payloadType']!r}: run `tidegate validate` again")
    trusted = {key_id(key): key for key in keys}
    known = signatures.keys() & trusted.keys()
    if not known:
        signers = ", ".join(signatures) or "nobody"
        raise NotAdmitted(f"{path} is signed by {signers}, which is not trusted here: add the validator's public key")
    if not any(_signed(trusted[name], signatures[name], payload) for name in known):
        raise Tampered(f"{path} was changed after it was signed: run `tidegate validate` again")
    return Verdict.from_dict(json.loads(payload), str(path))


def _signed(key: Ed25519PublicKey, signature: bytes, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _encoding(payload))
    except InvalidSignature:
        return False
    return True


def _exact_base64(text: str) -> bytes:
    """Decodes, and refuses a text whose unused bits are set: no two envelopes shall pass for the same verdict."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 with stray bits")
    return data


def _encoding(payload: bytes) -> bytes:
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"key file {path} is missing: make a pair with `tidegate keys`") from error
