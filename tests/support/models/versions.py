"""Version directories for tests: a few lines of Python as a model, published and, where wanted, signed."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate_serving.admission import GateResult, Outcome, Verdict, load_private_key, make_keys, write_verdict
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, describe_files, digest, read_manifest
from tidegate_serving.contract.repository import verdict_path, version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

SCALAR = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
HALF_PLUS_TWO = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * np.float32(0.5) + np.float32(2)}
"""
ADD = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {{"y": inputs["x"] + np.float32({0})}}
"""


@dataclass(frozen=True)
class Draft:
    """What a version directory shall hold: `files` by path; `signatures` where there is more than the default one."""

    platform: str = "python"
    files: Mapping[str, str | bytes] | None = None
    signature: Signature = SCALAR
    signatures: Mapping[str, Signature] | None = None
    example: Mapping[str, Any] | None = None
    event_time: str | None = None
    metadata: Mapping[str, str] | None = None


def adding(number: float, **changes: Any) -> Draft:
    """A model whose answer is its input plus a number, so that a client can tell versions apart."""
    return replace(Draft(files={"model.py": ADD.format(number)}), **changes)


def fill(directory: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_manifest(manifest: Manifest, directory: Path) -> str:
    """Writes `manifest.json`, as a publisher does last; its digest."""
    data = manifest.to_bytes()
    (directory / FILE_NAME).write_bytes(data)
    return digest(data)


def publish(root: Path, name: str, version: int, draft: Draft | None = None) -> Path:
    """Writes ROOT/NAME/VERSION with a manifest; the directory."""
    draft = draft or Draft()
    identity = ServableId(name, version)
    directory = version_directory(root, identity)
    fill(directory, draft.files or {"model.py": HALF_PLUS_TWO})
    manifest = Manifest(
        id=identity,
        platform=draft.platform,
        signatures=draft.signatures or {SERVING_DEFAULT: draft.signature},
        files=describe_files(directory),
        created_at="2026-01-01T00:00:00Z",
        event_time=draft.event_time,
        example={"x": 1.0} if draft.example is None else draft.example,
        metadata=draft.metadata or {},
    )
    write_manifest(manifest, directory)
    return directory


def digest_of(directory: Path) -> str:
    return read_manifest(directory)[1]


@dataclass(frozen=True)
class Validator:
    """A validator's key pair, and what it signs with it."""

    private: Path
    public: Path

    def sign(
        self,
        directory: Path,
        *,
        allowed: bool = True,
        valid_for: timedelta = timedelta(days=30),
        denied_by: Outcome = Outcome.FAIL,
        ran: bool = True,
    ) -> Path:
        """A verdict beside the directory, for its manifest as it is now; a no is that of the quality gate, or for want
        of it where it has not `ran`."""
        manifest, digest = read_manifest(directory)
        now = datetime.now(UTC)
        verdict = Verdict(
            id=manifest.id,
            manifest_digest=digest,
            outcome=Outcome.PASS if allowed else denied_by,
            allowed=allowed,
            sentence="It is as good as the one before." if allowed else "It is worse than the one before.",
            gates=(GateResult("quality", denied_by, "It is worse."),) if ran and not allowed else (),
            denied_by=() if allowed else ("quality",),
            first=True,
            baseline=None,
            data_digest="0" * 64,
            config_digest="0" * 64,
            tool_version="0.1.0",
            issued_at=(now + min(valid_for, timedelta()) - timedelta(seconds=1)).isoformat(),
            expires_at=(now + valid_for).isoformat(),
        )
        path = verdict_path(directory)
        write_verdict(verdict, path, load_private_key(self.private))
        return path


def make_validator(folder: Path, name: str = "validator") -> Validator:
    validator = Validator(folder / f"{name}.key", folder / f"{name}.pub")
    make_keys(validator.private, validator.public)
    return validator


def flip(path: Path, position: int) -> None:
    """Flips one bit of one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(bytes(data))


def forge(path: Path) -> None:
    """Flips one bit of an envelope's signature, which stays good base64."""
    envelope = json.loads(path.read_text())
    signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    signature[7] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    path.write_text(json.dumps(envelope))


def edit_manifest(directory: Path, **changes: Any) -> None:
    """Rewrites keys of a manifest, whose digest changes with them."""
    path = directory / "manifest.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changes}))
