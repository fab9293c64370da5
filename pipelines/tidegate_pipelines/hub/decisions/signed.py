"""Signed approvals: an in-toto statement about a release, signed with a key that the approval rule's ring trusts.

`sign_approval` makes one where the key lies; the hub takes it as JSON and never sees the key.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate_pipelines.hub.people_config import ApprovalRule
from tidegate_pipelines.hub.store import ReleaseRow
from tidegate_serving.admission import Role, load_private_key, read_trust
from tidegate_serving.admission.envelope import open_envelope, seal
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused

PREDICATE_TYPE = "urn:tidegate:approval:1"
_CURE = "sign it again with `tidegate approve --key`"


def sign_approval(
    *, release: int, model: str, version: int, digest: str, reason: str, private_key: Path
) -> dict[str, Any]:
    """The approval of a release of the version whose manifest has this SHA-256, as the hub takes it."""
    predicate = {
        "format": "tidegate.approval/1",
        "name": model,
        "version": version,
        "manifest_digest": digest,
        "release": release,
        "reason": reason,
        "issued_at": times.to_text(times.now()),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "approval.json"
        seal(predicate, PREDICATE_TYPE, path, load_private_key(private_key))
        made: dict[str, Any] = json.loads(path.read_bytes())
    return made


def check_signed(rule: ApprovalRule, release: ReleaseRow, reason: str, envelope: Mapping[str, Any]) -> str:
    """The name of the key that signed an approval of exactly this release.

    InvalidInput where there is none, PermissionRefused where its key is not trusted for it, Tampered where it is none,
    or about something else.
    """
    if not envelope:
        raise InvalidInput(f"approvals of {release.model} have to be signed: {_CURE}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"approval of release {release.id}"
        path.write_text(json.dumps(envelope), encoding="utf-8")
        opened = open_envelope(path, PREDICATE_TYPE, _CURE)
    ring = read_trust([rule.trusted] if rule.trusted else [])
    key = next((ring.keys[name] for name in opened.signatures if name in ring.keys), None)
    if key is None:
        raise PermissionRefused(
            f"key {', '.join(opened.signatures)} of this approval is not in {rule.trusted}: have it added, `tidegate "
            "keys add --role override`"
        )
    if key.role is not Role.OVERRIDE:
        raise PermissionRefused(f"{key} is trusted as {key.role} in {rule.trusted}, not as override: use another key")
    if (why := key.refusal(times.now())) is not None:
        raise PermissionRefused(f"{rule.trusted}: {why}")
    if not opened.signed_by(key.id, key.public()):
        raise PermissionRefused(f"the signature of this approval is not that of {key}: {_CURE}")
    found = opened.predicate()
    wanted = {
        "name": release.model,
        "version": release.version,
        "manifest_digest": release.digest,
        "release": release.id,
        "reason": reason,
    }
    differing = [name for name, value in wanted.items() if found.get(name) != value]
    if differing:
        raise PermissionRefused(f"the approval is signed for another {', '.join(differing)}: {_CURE}")
    return key.name
