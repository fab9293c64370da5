"""Looks at a verdict's file without a key: its digest, and what it claims.

Steps that run where the validator's public key is not known use it to choose and to hand over; who admits is the
engine, which checks the signature.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from tidegate_serving.admission.verdict import Verdict
from tidegate_serving.contract.errors import NotAdmitted, Tampered


def verdict_digest(path: Path) -> str:
    """SHA-256 of the envelope's bytes in hex. NotAdmitted, naming the file, where there is none."""
    return hashlib.sha256(_read(path)).hexdigest()


def claimed_verdict(path: Path) -> Verdict:
    """The verdict inside an envelope, its signature not checked. NotAdmitted or Tampered, naming the file."""
    try:
        payload = json.loads(base64.b64decode(json.loads(_read(path))["payload"], validate=True))
    except (ValueError, KeyError, TypeError) as error:
        raise Tampered(f"{path} is no signed verdict ({error}): run `tidegate validate` again") from error
    return Verdict.from_dict(payload, str(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotAdmitted(f"{path} is missing: run `tidegate validate` on this version first") from error
