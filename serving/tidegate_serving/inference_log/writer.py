"""Writes blocks of logged inferences as Parquet files in Hive layout, each complete before readers can see it.

A block holds rows of one version and goes to ROOT/model=NAME/version=N/date=YYYY-MM-DD/, by the date of the event where
the manifest names an event time.
"""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_serving.contract import log_record
from tidegate_serving.contract.tensors import Array
from tidegate_serving.files import written_aside

_EPOCH = date(1970, 1, 1)
_DAY_US = 86_400_000_000
_EARLIEST_US = int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * 1_000_000
_LATEST_US = int(datetime(9999, 12, 30, tzinfo=UTC).timestamp()) * 1_000_000
# What is encoded at once, and from where on Arrow is asked to give back what it keeps of it.
_GROUP_BYTES = 16 << 20
_ROLES = [log_record.Role.PRIMARY.value, log_record.Role.SHADOW.value]


class Block(Protocol):
    """Logged rows of one version, column by column, one entry per row: what is read of the data plane's `LogBlock`."""

    @property
    def model(self) -> str:
        """Name of the servable."""

    @property
    def version(self) -> int:
        """Its version."""

    @property
    def signature(self) -> str:
        """The signature that was called."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Arrays by input name."""

    @property
    def outputs(self) -> dict[str, Any]:
        """Arrays by output name; zeros or empty in failed rows."""

    @property
    def request_id(self) -> list[str]:
        """Which request a row came with."""

    @property
    def row(self) -> Any:
        """The row's number inside its request."""

    @property
    def role(self) -> Any:
        """0 for primary, 1 for shadow."""

    @property
    def status(self) -> Any:
        """Canonical gRPC codes."""

    @property
    def received_at_us(self) -> Any:
        """Unix microseconds."""

    @property
    def latency_us(self) -> Any:
        """Microseconds from the request's last byte to its answer."""


class LogWriter:
    """Writes below `root`, which it makes. Called by one thread at a time.

    The first Arrow array of a process imports pandas where that is installed; made here, it does not hold up inference.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._event_times: dict[tuple[str, int], str | None] = {}
        root.mkdir(parents=True, exist_ok=True)
        pa.array(_ROLES)

    def describe(self, model: str, version: int, event_time: str | None) -> None:
        """Names the input of a version that carries the time of the event in Unix seconds, if there is one."""
        self._event_times[model, version] = event_time

    def write(self, block: Block) -> None:
        """Writes one file per day of the block's rows. OSError when that is not possible; no half file is ever seen."""
        event_time = self._event_times.get((block.model, block.version))
        times = _event_times_us(block, event_time)
        table = _table(block, times)
        received = np.asarray(block.received_at_us, dtype=np.int64)
        days = np.where(times == _NO_TIME, received, times) // _DAY_US
        for day in np.unique(days):
            chosen = days == day
            rows = table if chosen.all() else table.filter(pa.array(chosen))
            self._write_file(block, _EPOCH + timedelta(days=int(day)), rows)
        if table.nbytes > _GROUP_BYTES:
            pa.default_memory_pool().release_unused()

    def _write_file(self, block: Block, day: date, table: Any) -> None:
        folder = self._root / f"model={block.model}" / f"version={block.version}" / f"date={day.isoformat()}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{int(np.min(block.received_at_us))}-{uuid.uuid4().hex[:12]}.parquet"
        groups = max(1, table.num_rows * _GROUP_BYTES // max(1, table.nbytes))
        dictionaries = _repetitive(table.schema)
        with written_aside(folder / name) as aside:
            pq.write_table(table, aside, compression="lz4", use_dictionary=dictionaries, row_group_size=groups)


def _repetitive(schema: Any) -> list[str]:
    """Columns worth a dictionary. Of numbers and request ids it costs half of the writing and makes files larger."""
    texts = [field.name for field in schema if pa.types.is_string(field.type) and field.name != log_record.REQUEST_ID]
    return [*texts, log_record.ROW, log_record.STATUS]


_NO_TIME = np.iinfo(np.int64).min


def _event_times_us(block: Block, name: str | None) -> Array:
    """Unix microseconds by row, `_NO_TIME` where an event has no usable time."""
    none, inputs = np.full(block.rows, _NO_TIME, dtype=np.int64), block.inputs
    if name is None or name not in inputs or inputs[name].dtype.kind not in "iuf" or inputs[name].ndim != 1:
        return none
    seconds = inputs[name].astype(np.float64)
    usable = np.isfinite(seconds) & (seconds > _EARLIEST_US / 1e6) & (seconds < _LATEST_US / 1e6)
    times = np.round(np.where(usable, seconds, 0.0) * 1e6).astype(np.int64)
    return np.where(usable, times, none)


def _table(block: Block, times: Array) -> Any:
    status = np.asarray(block.status, dtype=np.int32)
    moment = pa.timestamp("us", tz="UTC")
    columns: dict[str, Any] = {
        log_record.REQUEST_ID: pa.array(block.request_id, type=pa.string()),
        log_record.ROW: pa.array(np.asarray(block.row, dtype=np.int32)),
        log_record.ROLE: pa.array(_ROLES).take(pa.array(np.asarray(block.role, dtype=np.int8))),
        log_record.STATUS: pa.array(status),
        log_record.SIGNATURE: pa.array([block.signature] * block.rows, type=pa.string()),
        log_record.RECEIVED_AT: pa.array(np.asarray(block.received_at_us, dtype=np.int64)).cast(moment),
        log_record.EVENT_TIME: pa.array(times, mask=times == _NO_TIME).cast(moment),
        log_record.LATENCY_US: pa.array(np.asarray(block.latency_us, dtype=np.int64)),
    }
    for name, array in block.inputs.items():
        columns[log_record.input_column(name)] = _to_column(array)
    for name, array in block.outputs.items():
        columns[log_record.output_column(name)] = _to_column(array, status != 0)
    table = pa.table(columns)
    return table.replace_schema_metadata({log_record.FORMAT_KEY: log_record.FORMAT})


def _to_column(array: Array, missing: Array | None = None) -> Any:
    """An Arrow array with one entry per row: scalars, or nested lists for tensors of more axes.

    Rows where the boolean array `missing` is true become null. Strings (objects of `bytes`) become text, bytes that are
    not UTF-8 are written as `\\xNN`; float16 becomes float32, which every reader knows.
    """
    flat = _flat_column(array.reshape(-1))
    for axis in range(array.ndim - 1, 0, -1):
        flat = _grouped(flat, math.prod(array.shape[:axis]), array.shape[axis])
    return flat if missing is None or not missing.any() else _with_nulls(flat, missing)


def _flat_column(array: Array) -> Any:
    if array.dtype.kind == "O":
        return _text(array)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    return pa.array(array)


def _text(array: Array) -> Any:
    try:
        return pa.array(array, type=pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode(errors="backslashreplace") for item in array.tolist()], type=pa.string())


def _grouped(values: Any, count: int, size: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * size), values)


def _with_nulls(column: Any, missing: Array) -> Any:
    indices = np.arange(len(column))
    return column.take(pa.array(indices, mask=missing))
