"""Blocks of logged rows for tests, shaped as the data plane hands them over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

ARRIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@dataclass
class FakeBlock:
    """One row per element of `request_id`; what is not said is plain."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    model: str = "m"
    version: int = 1
    signature: str = "serving_default"
    received: datetime = ARRIVED
    request_id: list[str] = field(default_factory=list)
    role: Any = None
    status: Any = None
    latency_us: Any = None

    def __post_init__(self) -> None:
        rows = self.rows
        self.request_id = self.request_id or [f"r{number}" for number in range(rows)]
        self.role = np.zeros(rows, "u1") if self.role is None else np.asarray(self.role, "u1")
        self.status = np.zeros(rows, "u1") if self.status is None else np.asarray(self.status, "u1")
        self.latency_us = np.full(rows, 100) if self.latency_us is None else np.asarray(self.latency_us)

    @property
    def rows(self) -> int:
        return len(next(iter(self.inputs.values())))

    @property
    def row(self) -> Any:
        return np.zeros(self.rows, "u4")

    @property
    def received_at_us(self) -> Any:
        return np.full(self.rows, microseconds(self.received), "i8")
