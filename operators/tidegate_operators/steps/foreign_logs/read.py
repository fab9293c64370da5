"""Finds out whether a file, or a pattern of files, is another server's log, and reads it as one table."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.foreign_logs.cloud_events import is_cloud_events, read_cloud_events
from tidegate_operators.steps.foreign_logs.prediction_logs import is_prediction_logs, read_prediction_logs
from tidegate_operators.steps.foreign_logs.rows import Row
from tidegate_serving.contract.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

ADDED = ("request_id", "time")
"""Columns that a log of another server brings besides inputs and outputs."""
_JSON = (".json", ".jsonl", ".ndjson")


def as_rows(data: Any) -> pa.Table | None:
    """The log as a table, None for anything that is no log of another server.

    InvalidInput, naming file and record, for one that cannot be read, and for a column of mixed kinds.
    """
    if not isinstance(data, str | Path):
        return None
    paths = _paths(str(data))
    read = _reader(paths)
    if read is None:
        return None
    import pyarrow as pa

    rows = [row for path in paths for row in read(path)]
    if not rows:
        raise InvalidInput(f"{data} holds no request: give a log of requests with their inputs")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(map(_moment, values) if name == "time" else values)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidInput(f"column {name!r} of {data} holds values of several kinds: {error}") from error
        except OverflowError as error:
            raise InvalidInput(f"column {name!r} of {data} holds numbers beyond 64 bits: {error}") from error
    if columns["time"].null_count:
        columns.pop("time")
    return pa.table(columns)


def _paths(text: str) -> list[Path]:
    if not glob.has_magic(text) or Path(text).exists():
        return [Path(text)]
    root, rest = (Path("/"), text.lstrip("/")) if Path(text).is_absolute() else (Path(), text)
    return sorted(root.glob(rest))


def _reader(paths: list[Path]) -> Callable[[Path], Iterator[Row]] | None:
    first = next((path for path in paths if path.is_file()), None)
    if first is None:
        return None
    if is_prediction_logs(first):
        return read_prediction_logs
    return read_cloud_events if first.suffix.lower() in _JSON and is_cloud_events(first) else None


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
