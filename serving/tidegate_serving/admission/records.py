"""What was admitted, when, by which verdict and key: the engine's memory of its gate, kept on disk.

`admission` adds a record at each first admission, which costs one line however many there are, and reads it at the
next; status shows it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.files import RecordFile

_VERSION = "2"
_SPARE_LINES = 64


@dataclass(frozen=True, slots=True)
class OverrideRecord:
    """An override that a version came in by."""

    gate: str
    outcome: str
    key_id: str
    key_name: str
    reason: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """One admission. Digests are SHA-256 in hex; one with overrides was denied and admits no longer than they do, and
    one that was `withdrawn` by a later verdict admits no more."""

    manifest_digest: str
    name: str
    verdict_digest: str
    key_id: str
    key_name: str
    admitted_at: str
    overrides: tuple[OverrideRecord, ...] = ()
    withdrawn: bool = False


class AdmissionRecords:
    """Records by manifest digest, in a file if there is one to keep them in: a line each, of which the last counts."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else RecordFile(path)
        self._lock = threading.Lock()
        self._records: dict[str, AdmissionRecord] = {}
        self._overridden: dict[str, AdmissionRecord] = {}
        self.withdrawals = 0
        for record in () if self._file is None else _read(self._file):
            self._remember(record)

    def __contains__(self, digest: str) -> bool:
        """Whether it was admitted for good: by a verdict that none has withdrawn since, not by an override."""
        record = self._records.get(digest)
        return record is not None and not record.overrides and not record.withdrawn

    def record(self, digest: str) -> AdmissionRecord | None:
        """How a digest came in last, None where it never did."""
        return self._records.get(digest)

    def overridden(self) -> list[AdmissionRecord]:
        """Those that came in by override."""
        with self._lock:
            return list(self._overridden.values())

    def add(self, record: AdmissionRecord) -> None:
        """Remembers an admission, on disk before it returns; the same verdict and overrides again change nothing. Where
        it cannot be kept, it is not remembered, and this raises as `files.keep`."""
        with self._lock:
            known = self._records.get(record.manifest_digest)
            if known is not None and _same(known, record):
                return
            if self._file is not None:
                self._keep(self._file, record)
            self._remember(record)

    def withdraw(self, digest: str) -> None:
        """A later verdict refuses what was admitted for good; raises as `add`."""
        if digest in self:
            self.add(replace(self._records[digest], withdrawn=True))

    def _keep(self, file: RecordFile, record: AdmissionRecord) -> None:
        """Once most lines are of records that another replaced, the file is written anew without them."""
        if file.lines < 2 * len(self._records) + _SPARE_LINES:
            file.add(_document(record))
            return
        present = {**self._records, record.manifest_digest: record}
        file.replace([_document(one) for one in present.values()])

    def _remember(self, record: AdmissionRecord) -> None:
        self._records[record.manifest_digest] = record
        self._overridden.pop(record.manifest_digest, None)
        self.withdrawals += record.withdrawn
        if record.overrides:
            self._overridden[record.manifest_digest] = record


def _same(one: AdmissionRecord, other: AdmissionRecord) -> bool:
    return all(getattr(one, key) == getattr(other, key) for key in ("verdict_digest", "overrides", "withdrawn"))


def _document(record: AdmissionRecord) -> dict[str, Any]:
    """A line of the file; only one that was withdrawn says so."""
    document = {"format": f"tidegate.admitted/{_VERSION}", **asdict(record)}
    return document if record.withdrawn else {key: value for key, value in document.items() if key != "withdrawn"}


def _read(file: RecordFile) -> Iterator[AdmissionRecord]:
    for document, where in file.read():
        check_format(document, kind="admitted", version=_VERSION, where=where)
        try:
            overrides = tuple(OverrideRecord(**_known(OverrideRecord, one)) for one in document["overrides"])
            said = {"withdrawn": False, **document, "overrides": overrides}
            yield AdmissionRecord(**_known(AdmissionRecord, said))
        except MALFORMED as error:
            raise InvalidInput(f"{where} is no admission ({error!r}): restore the file, or remove it") from error


def _known(kind: type[AdmissionRecord | OverrideRecord], document: Mapping[str, Any]) -> dict[str, Any]:
    """What this build knows of it: the next minor version may say more."""
    return {field.name: document[field.name] for field in fields(kind)}
