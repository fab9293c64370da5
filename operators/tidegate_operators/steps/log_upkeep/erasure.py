"""Erases single rows from a log: those of named requests, or those in which a column has a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate_operators.steps.log_upkeep.compaction import GRACE_SECONDS, TARGET_BYTES
from tidegate_operators.steps.log_upkeep.folders import Skipped, data_files, day_folders, upkeep
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
    """Erases the rows of these requests, or those whose `column` (`in.user_id`, say) is `value`, of one model or all.

    Files that hold none of them stay as they are; the rows are gone from the disk when this returns, also those that
    came while it ran. Reports, golden requests and copies made of the log before are not looked at. Raises as
    `folders.upkeep`, InvalidInput unless exactly one of requests and column is given, Unsupported where folders cannot
    be exchanged in one step.
    """
    if bool(requests) == bool(column):
        raise InvalidInput("give either requests, or a column and its value")
    chosen = partial(_by_request, pa.array(requests)) if requests else partial(_by_value, column, value)
    needed = log_record.REQUEST_ID if requests else column
    rows, files = 0, 0
    skipped: dict[Path, Skipped] = {}
    with upkeep(root, grace) as work:
        for folder in day_folders(root):
            if model and folder.parents[1].name != f"model={model}":
                continue
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
    return Erasure(rows, files, tuple(skipped.values()))


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
    values = table[column]
    try:
        wanted = pa.scalar(value).cast(values.type)
    except pa.ArrowException:
        return pa.array([False] * table.num_rows)
    return pc.fill_null(pc.equal(values, wanted), fill_value=False)
