"""Logs that tests make up: files as the data plane writes them, with whatever rows, times and statuses a test wants.

`tests/serving/inference_log/test_log_files.py` holds that their columns are those of a real log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_serving.contract import log_record
from tidegate_serving.contract.log_record import Role

ARRIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)
_ROLES = np.array([Role.PRIMARY.value, Role.SHADOW.value])
_MOMENT = pa.timestamp("us", tz="UTC")
_numbers = count()


def microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@dataclass
class FakeBlock:
    """One row per element of `request_id`; what is not said is plain. `arrived_us` is for rows that came one by one."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    model: str = "m"
    version: int = 1
    signature: str = "serving_default"
    received: datetime = ARRIVED
    arrived_us: Any = None
    request_id: list[str] = field(default_factory=list)
    trace_id: list[str | None] = field(default_factory=list)
    role: Any = None
    status: Any = None
    latency_us: Any = None

    def __post_init__(self) -> None:
        rows = self.rows
        self.request_id = self.request_id or [f"r{number}" for number in range(rows)]
        self.trace_id = self.trace_id or [None] * rows
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
        return np.full(self.rows, microseconds(self.received), "i8") if self.arrived_us is None else self.arrived_us


def write_log(root: Path, block: FakeBlock) -> Path:
    """Writes a block as one file, by the day of its first row's arrival."""
    status = np.asarray(block.status, np.int32)
    columns = {
        log_record.REQUEST_ID: pa.array(block.request_id, pa.string()),
        log_record.TRACE_ID: pa.array(block.trace_id, pa.string()),
        log_record.ROW: pa.array(np.asarray(block.row, np.int32)),
        log_record.ROLE: pa.array(_ROLES[np.asarray(block.role)], pa.string()),
        log_record.STATUS: pa.array(status),
        log_record.SIGNATURE: pa.array([block.signature] * block.rows, pa.string()),
        log_record.RECEIVED_AT: pa.array(block.received_at_us).cast(_MOMENT),
        log_record.EVENT_TIME: pa.nulls(block.rows, _MOMENT),
        log_record.LATENCY_US: pa.array(np.asarray(block.latency_us, np.int64)),
    }
    columns |= {log_record.input_column(name): _column(array) for name, array in block.inputs.items()}
    columns |= {log_record.output_column(name): _column(array, status != 0) for name, array in block.outputs.items()}
    first = int(block.received_at_us[0])
    day = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=first)
    folder = root / f"model={block.model}" / f"version={block.version}" / f"date={day.date().isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{first}-{next(_numbers)}.parquet"
    table = pa.table(columns).replace_schema_metadata({log_record.FORMAT_KEY: log_record.FORMAT})
    pq.write_table(table, path, compression="lz4")
    return path


def _column(array: Any, missing: Any = None) -> Any:
    kind = pa.string() if array.dtype.kind == "O" else pa.from_numpy_dtype(array.dtype)
    for _ in range(array.ndim - 1):
        kind = pa.list_(kind)
    rows = [row.decode(errors="backslashreplace") if isinstance(row, bytes) else row for row in array.tolist()]
    return pa.array([None if missing is not None and missing[at] else row for at, row in enumerate(rows)], kind)
