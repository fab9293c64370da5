"""Calls of models that run now, as the data plane tells of them: a stop that waits in vain names them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A call that has not returned: whose it is, the rows of its batch, the id of its first request, and since when
    (Unix seconds)."""

    model: str
    version: int
    signature: str
    rows: int
    request_id: str
    since: float

    @classmethod
    def of(cls, told: tuple[str, int, str, int, str, float]) -> RunningCall:
        """From what the data plane says, whose last value is for how long it has run."""
        model, version, signature, rows, request_id, seconds = told
        return cls(model, version, signature, rows, request_id, time.time() - seconds)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(round(self.since), UTC).isoformat().replace("+00:00", "Z")
        rows = f"{self.rows} row{'s' if self.rows != 1 else ''}"
        return (
            f"{self.model} version {self.version} is stuck since {since}: its call of '{self.signature}' with {rows} "
            f"(request {self.request_id}) has not returned"
        )
