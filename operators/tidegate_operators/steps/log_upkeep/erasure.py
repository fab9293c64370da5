"""Erases single rows from a log: those of named requests, or those in which a column has a value."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate_operators.steps.log_upkeep.compaction import GRACE_SECONDS, TARGET_BYTES
from tidegate_operators.steps.log_upkeep.folders import Skipped, data_files, day_folders, unfinished_files, upkeep
from tidegate_operators.steps.log_upkeep.parquet import LogFiles, common_schema, first_of, tables_of
from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput

_PASSES = 3
Chosen = Callable[[Any], Any]
"""Which rows of a table go, as a mask; None where it lacks the column."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """How many rows went, from how many files; folders that could not be looked through are in `skipped`."""

    rows: int
    files: int
    skipped: tuple[Skipped, ...]


def erase_from_log(
    root: Path,
    *,
    requests: Sequence[str] = (),
    column: str = "",
    value: str = "",
    model: str = "",
    grace: float = GRACE_SECONDS,
) -> Erasure:
    """Erases the rows of these requests, or those whose `column` (`in.user_id`, say) is `value` or has it among its
    elements, of one model or all.

    Files that hold none of them stay as they are; the rows are gone from the disk when this returns, also those that
    came while it ran. A day with a file that is not finished, or with PredictionLogs, is told as skipped. Reports,
    golden requests and copies made of the log before are not looked at. Raises as
    `folders.upkeep`, InvalidInput unless exactly one of requests and column is given and where nothing is logged of the
    model or no file has the column, Unsupported where folders cannot be exchanged in one step.
    """
    if bool(requests) == bool(column):
        raise InvalidInput("give either requests, or a column and its value")
    chosen = partial(_by_request, pa.array(requests)) if requests else partial(_by_value, column, value)
    needed = log_record.REQUEST_ID if requests else column
    rows, files = 0, 0
    skipped: dict[Path, Skipped] = {}
    with upkeep(root, grace) as work:
        folders = _folders(root, model)
        if column:
            _check_column(folders, column)
        for folder in folders:
            for _ in range(_PASSES):
                try:
                    found = _holding(folder, needed, chosen)
                    if not found:
                        break
                    everything = data_files(folder)
                    kept = [file for file in everything if file not in found]
                    work.replace(folder, everything, kept, partial(_without, sorted(found), chosen))
                except InvalidInput as error:
                    skipped[folder] = Skipped(folder, error.message)
                    break
                rows, files = rows + sum(found.values()), files + len(found)
            if folder not in skipped and (why := _not_looked_at(folder)):
                skipped[folder] = Skipped(folder, why)
    return Erasure(rows, files, tuple(skipped.values()))


def _folders(root: Path, model: str) -> list[Path]:
    """The days of the model, or of all."""
    everything = day_folders(root)
    found = [folder for folder in everything if not model or folder.parents[1].name == f"model={model}"]
    if model and not found:
        known = sorted({folder.parents[1].name.removeprefix("model=") for folder in everything})
        raise InvalidInput(f"nothing is logged of model {model!r} in {root}: it has {', '.join(known) or 'no model'}")
    return found


def _check_column(folders: Sequence[Path], column: str) -> None:
    """InvalidInput where no file that can be read has the column; of folders without a file nothing is said."""
    known: set[str] = set()
    for file in (file for folder in folders for file in data_files(folder)):
        with contextlib.suppress(pa.ArrowException, OSError):  # its folder is told as skipped
            known.update(pq.read_schema(file).names)
        if column in known:
            return
    if known:
        raise InvalidInput(f"no file of the log has a column {column!r}: use one of {', '.join(sorted(known))}")


def _not_looked_at(folder: Path) -> str:
    """Which files of a day may hold such rows too, and what to do about them; empty where there are none."""
    if unfinished := unfinished_files(folder):
        return (
            f"{unfinished[0].name} is being written, or its engine was killed: erase again in an hour, when it is in "
            "its place or removed"
        )
    if any(folder.glob("*.tfrecord")):
        return "it holds PredictionLogs, of which no rows can be erased: remove the folder, or let `log retain` do so"
    return ""


def _holding(folder: Path, needed: str, chosen: Chosen) -> dict[Path, int]:
    """How many rows go, by file; those without any are left out."""
    found = {}
    for file in data_files(folder):
        try:
            names = pq.read_schema(file).names
            count = int(pc.sum(chosen(pq.read_table(file, columns=[needed]))).as_py() or 0) if needed in names else 0
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(f"{file.name} cannot be read as Parquet ({error}): move it out of the log") from error
        if count and file.is_symlink():
            raise InvalidInput(f"{file.name} is a link, and its rows lie elsewhere: put the file itself there")
        if count:
            found[file] = count
    return found


def _without(files: Sequence[Path], chosen: Chosen, aside: Path) -> None:
    for file in files:
        schema = common_schema([file])
        with LogFiles(aside, schema, first_of([file]), TARGET_BYTES) as written:
            for table in tables_of(file, schema):
                left = table.filter(pc.invert(chosen(table)))
                if left.num_rows:
                    written.add(left)


def _by_request(requests: Any, table: Any) -> Any:
    return pc.is_in(table[log_record.REQUEST_ID], value_set=requests)


def _by_value(column: str, value: str, table: Any) -> Any:
    """Rows whose value it is, or, in lists of any depth, one of their elements."""
    values = table[column].combine_chunks()
    rows = pa.array(range(table.num_rows), pa.int64())
    while pa.types.is_nested(values.type):
        rows = rows.take(pc.list_parent_indices(values))
        values = pc.list_flatten(values)
    try:
        wanted = pa.scalar(value).cast(values.type)
    except pa.ArrowException:
        return pa.array([False] * table.num_rows)
    having = rows.filter(pc.fill_null(pc.equal(values, wanted), fill_value=False))
    return pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=having)
