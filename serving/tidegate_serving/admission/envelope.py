"""Signed statements about a version as files: an in-toto Statement (version 1) in a DSSE envelope (version 1).

The statement's subject names the version and its manifest's SHA-256, its predicate is the document that is signed:
verdicts and overrides are. https://github.com/in-toto/attestation and https://github.com/secure-systems-lab/dsse
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission.keys import Signer, key_id
from tidegate_serving.contract.errors import NotAdmitted, Tampered
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.plain_file import read_plain
from tidegate_serving.files import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed statement as it lies in a file. `digest` is the SHA-256 of the file's bytes in hex, `signatures` go by
    key id; nothing in it may be believed before `signed_by` has said True."""

    path: Path
    payload: bytes
    signatures: Mapping[str, bytes]
    digest: str
    predicate_type: str
    cure: str

    def signed_by(self, name: str, key: Ed25519PublicKey) -> bool:
        """Whether the signature under key id `name` is that key's, over payload and type."""
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(self.signatures[name], _signed_bytes(self.payload))
        except InvalidSignature:
            return False
        return True

    def predicate(self) -> dict[str, Any]:
        """What the statement says of its subject. Tampered, naming the file, where the payload is no statement with
        this type of predicate, or is about another version than its predicate names."""
        try:
            statement = json.loads(self.payload)
            found: dict[str, Any] = statement["predicate"]
            (subject,) = statement["subject"]
            about = _subject(found)
            named = {"name": subject["name"], "digest": {"sha256": subject["digest"]["sha256"]}}
            types = statement["_type"], statement["predicateType"]
        except MALFORMED as error:
            raise Tampered(
                f"{self.path} holds no in-toto statement ({type(error).__name__}: {error}): {self.cure}"
            ) from error
        if types != (STATEMENT_TYPE, self.predicate_type):
            wanted = f"{STATEMENT_TYPE} with predicate {self.predicate_type}"
            raise Tampered(
                f"{self.path} holds {types[0]!r} with predicate {types[1]!r} instead of {wanted}: {self.cure}"
            )
        if named != about:
            raise Tampered(f"{self.path} has subject {named} and a predicate about {about}: {self.cure}")
        return found


def seal(predicate: Mapping[str, Any], predicate_type: str, path: Path, key: Signer) -> str:
    """Signs the statement of a predicate, which names its version by `name`, `version` and `manifest_digest`, and
    writes the envelope atomically; returns the SHA-256 of the file's bytes in hex."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [_subject(predicate)],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    payload = json.dumps(statement, sort_keys=True, allow_nan=False).encode()
    signature = key.sign(_signed_bytes(payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }
    data = (json.dumps(envelope, indent=1) + "\n").encode()
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def open_envelope(path: Path, predicate_type: str, cure: str) -> Envelope:
    """The envelope in a file. NotAdmitted where there is none, Tampered where it is no envelope of a statement; `cure`
    ends the sentence, such as "run `tidegate validate` again"."""
    try:
        data = read_plain(path, cure)
    except FileNotFoundError as error:
        raise NotAdmitted(f"{path} is missing: {cure}") from error
    try:
        envelope = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Tampered(f"{path} is no signed document, as it is no JSON: {cure}") from error
    try:
        payload = _exact_base64(envelope["payload"])
        signatures = {str(entry["keyid"]): _exact_base64(entry["sig"]) for entry in envelope["signatures"]}
        found = envelope["payloadType"]
    except MALFORMED as error:
        what = "no DSSE envelope, of payloadType, payload and signatures in base64"
        raise Tampered(f"{path} is no signed document, as it is {what}: {cure}") from error
    if found != PAYLOAD_TYPE:
        raise Tampered(f"{path} carries payload type {found!r} instead of {PAYLOAD_TYPE}: {cure}")
    return Envelope(path, payload, signatures, hashlib.sha256(data).hexdigest(), predicate_type, cure)


def _subject(predicate: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{predicate['name']}:{predicate['version']}",
        "digest": {"sha256": predicate["manifest_digest"]},
    }


def _exact_base64(text: str) -> bytes:
    """Decodes, and refuses a text whose unused bits are set: no two envelopes shall pass for the same document."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 with stray bits")
    return data


def _signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
