"""An inference log that is kept in order: its files are written as the engine does, and read as its users do."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate_operators.steps.log_upkeep import Compaction, compact_log
from tidegate_serving.contract import log_record
from tidegate_serving.inference_log.reader import connect

DAY = "2026-03-01"


def compacted(root: Path, **options: Any) -> Compaction:
    """At once, whatever is being written."""
    return compact_log(root, settled=0, grace=0, **options)


def folder_of(root: Path, day: str = DAY, model: str = "m") -> Path:
    return root / f"model={model}" / "version=1" / f"date={day}"


def write(folder: Path, ids: list[str], **columns: Any) -> Path:
    """A file as the engine writes it: aside in its folder, then renamed; again where the folder was exchanged."""
    table = pa.table({log_record.REQUEST_ID: ids, "in.x": [float(len(one)) for one in ids], **columns})
    table = table.replace_schema_metadata({log_record.FORMAT_KEY: log_record.FORMAT})
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"1000-{uuid.uuid4().hex[:12]}.parquet"
        aside = path.with_name(f".{path.name}.aside")
        try:
            pq.write_table(table, aside)
            aside.rename(path)
        except FileNotFoundError:
            continue
        return path


def ids_of(root: Path) -> list[str]:
    with connect(root) as connection:
        return [row[0] for row in connection.execute("SELECT request_id FROM log ORDER BY 1").fetchall()]


def ids_of_files(root: Path) -> list[str]:
    """Of files whose columns do not go together as one table, too."""
    return sorted(one for file in root.rglob("1*.parquet") for one in pq.read_table(file)["request_id"].to_pylist())


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))
