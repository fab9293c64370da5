"""Signed documents: a payload's exact bytes, its type and signatures over both, as one JSON file. DSSE, version 1.

`signing` seals verdicts and `override` overrides with a private key; whoever reads one opens it here and asks by which
key it is signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import NotAdmitted, Tampered

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed document as it lies in a file. `digest` is the SHA-256 of the file's bytes in hex, `signatures` go by
    key id; nothing in it may be believed before `signed_by` has said True."""

    path: Path
    payload_type: str
    payload: bytes
    signatures: Mapping[str, bytes]
    digest: str

    def signed_by(self, name: str, key: Ed25519PublicKey) -> bool:
        """Whether the signature under key id `name` is that key's, over type and payload."""
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(self.signatures[name], _encoding(self.payload_type, self.payload))
        except InvalidSignature:
            return False
        return True

    def document(self) -> dict[str, Any]:
        """The payload, a JSON object. Tampered, naming the file, where it is none."""
        try:
            found = json.loads(self.payload)
        except ValueError as error:
            raise Tampered(f"{self.path} holds no JSON document ({error}): make it again") from error
        if not isinstance(found, dict):
            raise Tampered(f"{self.path} holds no JSON object: make it again")
        return found


def key_id(key: Ed25519PublicKey) -> str:
    """Short name of a key: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def seal(document: Mapping[str, Any], payload_type: str, path: Path, key: Ed25519PrivateKey) -> str:
    """Signs the document and renames the envelope into place; returns the SHA-256 of the file's bytes in hex."""
    payload = json.dumps(document, sort_keys=True, allow_nan=False).encode()
    signature = key.sign(_encoding(payload_type, payload))
    envelope = {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }
    data = (json.dumps(envelope, indent=1) + "\n").encode()
    replace_file(path, data)
    return hashlib.sha256(data).hexdigest()


def open_envelope(path: Path, payload_type: str, cure: str) -> Envelope:
    """The envelope in a file. NotAdmitted where there is none, Tampered where it is no envelope of this type; `cure`
    ends the sentence, such as "run `tidegate validate` again"."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise NotAdmitted(f"{path} is missing: {cure}") from error
    try:
        envelope = json.loads(data)
        payload = _exact_base64(envelope["payload"])
        signatures = {str(entry["keyid"]): _exact_base64(entry["sig"]) for entry in envelope["signatures"]}
        found = envelope["payloadType"]
    except (ValueError, KeyError, TypeError) as error:
        raise Tampered(f"{path} is no signed document ({type(error).__name__}: {error}): {cure}") from error
    if found != payload_type:
        raise Tampered(f"{path} carries payload type {found!r} instead of {payload_type}: {cure}")
    return Envelope(path, payload_type, payload, signatures, hashlib.sha256(data).hexdigest())


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file aside and renames it into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.replace(path)


def _exact_base64(text: str) -> bytes:
    """Decodes, and refuses a text whose unused bits are set: no two envelopes shall pass for the same document."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 with stray bits")
    return data


def _encoding(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
