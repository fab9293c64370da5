"""Finds out whether a file, or a pattern of files, is another server's log, and reads it as one table."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.steps.foreign_logs.cloud_events import is_cloud_events, read_cloud_events
from tidegate_operators.steps.foreign_logs.columns import ADDED, as_columns
from tidegate_operators.steps.foreign_logs.prediction_logs import is_prediction_logs, read_prediction_logs
from tidegate_operators.steps.foreign_logs.requests import Request, Unread
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import check_given
from tidegate_validation.skew import LeftOut
from tidegate_validation.skew.left_out import SHOWN

if TYPE_CHECKING:
    import pyarrow as pa

_JSON = (".json", ".jsonl", ".ndjson")


def is_foreign_log(data: Any) -> bool:
    """Whether it is the path, or the pattern of paths, of another server's log."""
    return isinstance(data, str | Path) and _reader(_paths(str(data))) is not None


def as_rows(data: str | Path, known: Collection[str] = ()) -> tuple[pa.Table, LeftOut]:
    """The log as a table, with the requests that cannot be read or do not fit in and so are left out. `known` are
    columns that a log may have, however few requests have them.

    InvalidInput where no request can be read, or it is no log of another server.
    """
    paths = _paths(str(data))
    read = _reader(paths)
    if read is None:
        raise InvalidInput(f"{data} is no log of KServe (JSON) or TensorFlow Serving (.tfrecord): name such files")
    for path in paths:
        check_given(path, "log", "leave it out of the pattern, or write it anew")
    import pyarrow as pa

    found = list(read(paths))
    requests = [one for one in found if isinstance(one, Request)]
    unread = [one for one in found if isinstance(one, Unread)]
    columns, unfit = as_columns(requests, known)
    unread += unfit
    if not columns.keys() - set(ADDED):
        first = f": {unread[0].where}: {unread[0].why}" if unread else ""
        raise InvalidInput(f"{data} holds no request that can be read{first}: give a log of requests with their inputs")
    number = sum(one.requests for one in unread)
    left_out = LeftOut(
        number, number + len(requests) - len(unfit), tuple((one.where, one.why) for one in unread[:SHOWN])
    )
    return pa.table(columns), left_out


def _paths(text: str) -> list[Path]:
    if not glob.has_magic(text) or Path(text).exists():
        return [Path(text)]
    root, rest = (Path("/"), text.lstrip("/")) if Path(text).is_absolute() else (Path(), text)
    return sorted(root.glob(rest))


def _reader(paths: list[Path]) -> Callable[[list[Path]], Iterator[Request | Unread]] | None:
    first = next((path for path in paths if path.is_file()), None)
    if first is None:
        return None
    if is_prediction_logs(first):
        return read_prediction_logs
    return read_cloud_events if first.suffix.lower() in _JSON and is_cloud_events(first) else None
