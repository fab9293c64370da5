"""The gate, engine side: a version comes in only with a verdict that a trusted key signed for exactly its manifest.

Sources ask before they want a version, loaders ask again right before they load it. A digest that was admitted once is
remembered, so that a rollback never fails because a verdict's date has passed.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tidegate_serving.atomic_file import write_atomically
from tidegate_serving.contract.errors import NotAdmitted, Refused, Tampered
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.signing import load_public_key, read_verdict
from tidegate_serving.contract.verdict import Outcome, Verdict

_log = logging.getLogger(__name__)
_VERSION = "1"
_NO_JUDGEMENT = (Outcome.ERROR, Outcome.INCONCLUSIVE)


class Admission(Protocol):
    """Says whether a version may serve."""

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Returns, or raises NotAdmitted, Tampered or Refused with the file and the cure."""


class AdmittedDigests:
    """Digests that were admitted once, in a file if there is one to keep them in."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._digests = _read_digests(path) if path is not None else set()

    def __contains__(self, digest: str) -> bool:
        return digest in self._digests

    def add(self, digest: str) -> None:
        """Remembers a digest, on disk before it returns."""
        with self._lock:
            if digest in self._digests:
                return
            self._digests.add(digest)
            if self._path is not None:
                _write_digests(self._path, self._digests)


class VerdictAdmission:
    """Admits what a trusted key's verdict allows; the verdict lies beside the version directory."""

    def __init__(self, key_files: Sequence[Path], admitted: AdmittedDigests) -> None:
        self._keys = [load_public_key(path) for path in key_files]
        self._admitted = admitted

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Signature, digest and decision are checked each time, the date only before the first admission.

        A later FAIL takes the leave of an admitted digest back; a judgement that could not be made does not.
        """
        path = verdict_path(directory)
        verdict = read_verdict(path, self._keys)
        if verdict.id != manifest.id or verdict.manifest_digest != digest:
            raise Tampered(
                f"{directory / 'manifest.json'} is not what {path} was signed for "
                f"({verdict.id}, SHA-256 {verdict.manifest_digest[:12]}): validate this version again"
            )
        if digest in self._admitted and not verdict.allowed and verdict.outcome in _NO_JUDGEMENT:
            _log.warning(
                "%s could not judge %s again, which was admitted before: %s", path, manifest.id, verdict.sentence
            )
            return
        if not verdict.allowed:
            raise Refused(f"{path} refuses {manifest.id}: {verdict.sentence}")
        if digest not in self._admitted:
            _check_date(verdict, path)
            self._admitted.add(digest)


class AdmitUnverified:
    """Admits everything, loudly; for development."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Warns once per version."""
        if digest not in self._warned:
            self._warned.add(digest)
            _log.warning(
                "UNVERIFIED: %s in %s is admitted without a verdict (allow_unverified)", manifest.id, directory
            )


def _check_date(verdict: Verdict, path: Path) -> None:
    try:
        expires = datetime.fromisoformat(verdict.expires_at)
    except ValueError as error:
        raise NotAdmitted(f"{path} expires at {verdict.expires_at!r}, which is no date: validate again") from error
    if (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) < datetime.now(UTC):
        raise NotAdmitted(f"{path} expired at {verdict.expires_at}: run `tidegate validate` on this version again")


def _read_digests(path: Path) -> set[str]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return set()
    check_format(document, kind="admitted", version=_VERSION, where=str(path))
    return set(document["digests"])


def _write_digests(path: Path, digests: set[str]) -> None:
    document = {"format": f"tidegate.admitted/{_VERSION}", "digests": sorted(digests)}
    write_atomically(path, (json.dumps(document, indent=1) + "\n").encode())
