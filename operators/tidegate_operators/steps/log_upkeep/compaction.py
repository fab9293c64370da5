"""Merges the many small files of a day into few large ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidegate_operators.steps.log_upkeep.folders import Skipped, data_files, day_folders, upkeep
from tidegate_operators.steps.log_upkeep.parquet import (
    LogFiles,
    common_schema,
    first_of,
    rows_of,
    tables_of,
    that_go_together,
)
from tidegate_serving.contract.errors import InvalidInput

LEAST_FILES, SETTLED_SECONDS, TARGET_BYTES, GRACE_SECONDS = 8, 3600.0, 256 << 20, 5.0


@dataclass(frozen=True, slots=True)
class Compaction:
    """What was done: how many day folders, how many files before and after, and what was left as it is."""

    folders: int
    files_before: int
    files_after: int
    skipped: tuple[Skipped, ...]


def compact_log(
    root: Path,
    *,
    least_files: int = LEAST_FILES,
    settled: float = SETTLED_SECONDS,
    target_bytes: int = TARGET_BYTES,
    grace: float = GRACE_SECONDS,
) -> Compaction:
    """Merges files below half of `target_bytes` where a day has at least `least_files` of them and got none for
    `settled` seconds.

    Rows, columns and folders stay as they were; files whose columns have other types, as of another signature, are
    merged with each other. A folder with a file that cannot be read is left as it is and told.
    Raises as `folders.upkeep`; Unsupported where folders cannot be exchanged in one step.
    """
    done, before, after = 0, 0, 0
    skipped: list[Skipped] = []
    with upkeep(root, grace) as work:
        for folder in day_folders(root):
            files = data_files(folder)
            small = [file for file in files if file.stat().st_size < target_bytes / 2]
            if len(small) < max(2, least_files) or _changed(files) > time.time() - settled:
                continue
            large = [file for file in files if file not in small]
            try:
                work.replace(folder, files, large, partial(_merge, small, target_bytes))
            except InvalidInput as error:
                skipped.append(Skipped(folder, error.message))
                continue
            done, before, after = done + 1, before + len(files), after + len(data_files(folder))
    return Compaction(done, before, after, tuple(skipped))


def _changed(files: Sequence[Path]) -> float:
    return max(file.stat().st_mtime for file in files)


def _merge(files: Sequence[Path], target_bytes: int, aside: Path) -> None:
    for group in that_go_together(files):
        _merge_alike(group, target_bytes, aside)


def _merge_alike(files: Sequence[Path], target_bytes: int, aside: Path) -> None:
    schema = common_schema(files)
    try:
        with LogFiles(aside, schema, first_of(files), target_bytes) as written:
            for file in files:
                for table in tables_of(file, schema):
                    written.add(table)
    except pa.ArrowException as error:
        raise InvalidInput(f"its files cannot be merged ({error}): move those that differ out of the log") from error
    expected, found = sum(map(rows_of, files)), sum(map(rows_of, written.paths))
    if expected != found:
        raise InvalidInput(f"{expected} rows became {found}: look at the files' metadata")
