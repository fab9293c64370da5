"""The receipt of one answer: what was logged of it, what stands behind the version, and whether it comes out again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate_pipelines.receipts.again import Again, compute_again
from tidegate_pipelines.receipts.logged import LoggedAnswer
from tidegate_pipelines.receipts.provenance import Provenance, provenance_of
from tidegate_serving.contract import times

VERSION = "1"
NO_BATCH_SIZE = "not in the log"
"""What a receipt says of the batch that the request ran in: engines do not log how many rows it had."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One answer and everything behind it. `again` is None where it was not asked to be computed again."""

    answer: LoggedAnswer
    provenance: Provenance
    again: Again | None = None

    @property
    def batch_size(self) -> str:
        """The rows of the batch that the request ran in."""
        return NO_BATCH_SIZE

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        answer, behind = self.answer, self.provenance
        return {
            "format": f"tidegate.receipt/{VERSION}",
            "request_id": answer.request_id,
            "trace_id": answer.trace_id,
            "model": answer.model,
            "version": answer.version,
            "role": answer.role,
            "status": answer.status,
            "signature": answer.signature,
            "received_at": times.to_text(answer.received_at),
            "latency_us": answer.latency_us,
            "rows": answer.rows,
            "batch_size": None,
            "batch_size_note": self.batch_size,
            "inputs": dict(answer.inputs),
            "outputs": dict(answer.outputs),
            "log": [{"file": file, "rows": list(rows)} for file, rows in answer.files.items()],
            "manifest_digest": behind.manifest_digest or None,
            "directory": None if behind.directory is None else str(behind.directory),
            "platform": behind.platform or None,
            "published_at": behind.published_at or None,
            "verdict": None if behind.verdict is None else asdict(behind.verdict),
            "training": None if behind.training is None else asdict(behind.training),
            "missing": list(behind.missing),
            "again": None if self.again is None else asdict(self.again),
        }


def receipt_of(answer: LoggedAnswer, directory: Path | None, *, again: bool) -> Receipt:
    """The receipt of a logged answer. `directory` is where the version's files should lie, None where nobody knows;
    `again` has the answer computed again from them, which takes as long as loading the version does."""
    behind = provenance_of(directory, f"{answer.model}:{answer.version}", answer.received_at)
    if not again:
        return Receipt(answer, behind)
    differs = behind.verdict.differs_by if behind.verdict is not None else None
    return Receipt(answer, behind, compute_again(behind.directory, answer, differs))
