"""What was admitted, when, by which verdict and key: the engine's memory of its gate, kept on disk.

`admission` writes a record at each first admission and reads it at the next; status shows it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import check_format
from tidegate_serving.state_file import keep

_VERSION = "1.1"


@dataclass(frozen=True, slots=True)
class AdmittedOverride:
    """An override that a version came in by."""

    gate: str
    outcome: str
    key_id: str
    key_name: str
    reason: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """One admission. Digests are SHA-256 in hex; one with overrides was denied and admits no longer than they do."""

    manifest_digest: str
    name: str
    verdict_digest: str
    key_id: str
    key_name: str
    admitted_at: str
    overrides: tuple[AdmittedOverride, ...] = ()


class AdmittedDigests:
    """Records by manifest digest, in a file if there is one to keep them in."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._records: dict[str, AdmissionRecord] = _read(path) if path is not None else {}

    def __contains__(self, digest: str) -> bool:
        """Whether it was admitted for good: by a verdict, not by an override."""
        record = self._records.get(digest)
        return record is not None and not record.overrides

    def record(self, digest: str) -> AdmissionRecord | None:
        """How a digest came in last, None where it never did."""
        return self._records.get(digest)

    def overridden(self) -> list[AdmissionRecord]:
        """Those that came in by override."""
        return [record for record in self._records.values() if record.overrides]

    def add(self, record: AdmissionRecord) -> None:
        """Remembers an admission, on disk before it returns; the same verdict and overrides again change nothing. Where
        it cannot be kept, it is not remembered, and this raises as `state_file.keep`."""
        with self._lock:
            known = self._records.get(record.manifest_digest)
            if known is not None and _same(known, record):
                return
            records = {**self._records, record.manifest_digest: record}
            if self._path is not None:
                _write(self._path, records)
            self._records = records


def _same(one: AdmissionRecord, other: AdmissionRecord) -> bool:
    return (one.verdict_digest, one.overrides) == (other.verdict_digest, other.overrides)


def _read(path: Path) -> dict[str, AdmissionRecord]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidInput(f"{path} is no memory of admissions ({error}): restore it, or remove it") from error
    check_format(document, kind="admitted", version=_VERSION, where=str(path))
    try:
        known = {digest: AdmissionRecord(digest, "", "", "", "", "") for digest in document["digests"]}
        return {**known, **{digest: _record(entry) for digest, entry in document.get("records", {}).items()}}
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is no memory of admissions ({error!r}): restore it, or remove it") from error


def _record(entry: Mapping[str, Any]) -> AdmissionRecord:
    return AdmissionRecord(**{**entry, "overrides": tuple(AdmittedOverride(**one) for one in entry["overrides"])})


def _write(path: Path, records: Mapping[str, AdmissionRecord]) -> None:
    """`digests` are those admitted for good, as minor version 0 had them."""
    document = {
        "format": f"tidegate.admitted/{_VERSION}",
        "digests": sorted(digest for digest, record in records.items() if not record.overrides),
        "records": {digest: asdict(record) for digest, record in sorted(records.items())},
    }
    keep(path, (json.dumps(document, indent=1) + "\n").encode())
