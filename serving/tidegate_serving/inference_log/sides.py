"""Versions' logged rows by signature: outputs of two signatures may have one name and other types, so that the type of
all rows together says neither, and a row has no value in the columns of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidegate_serving.contract.log_record import OUTPUT_PREFIX, SIGNATURE
from tidegate_serving.inference_log.reader import scan


class Side(NamedTuple):
    """One version's rows of one signature as SQL text, with a column `engine`; the DuckDB type of each output column;
    and the signature, which is empty where the log has no other."""

    source: str
    outputs: Mapping[str, str]
    signature: str = ""


def sides(connection: Any, log_root: Path, model: str, versions: Sequence[int]) -> list[list[Side]]:
    """For each signature the rows of each version. Call it within the `read_again` that reads; NotFound as `scan`."""
    sources = [scan(log_root, model, version, by_engine=True) for version in versions]
    asked = " UNION ".join(f"SELECT {SIGNATURE} FROM {source}" for source in sources)
    names = [name for (name,) in connection.execute(f"{asked} ORDER BY 1").fetchall()]
    if len(names) < 2:
        return [[Side(source, _outputs(connection, source)) for source in sources]]

    def of(version: int, name: str) -> Side:
        source = scan(log_root, model, version, by_engine=True, signatures={version: name})
        literal = "'" + name.replace("'", "''") + "'"
        rows = f"(SELECT * FROM {source} WHERE {SIGNATURE} = {literal})"
        return Side(rows, _outputs(connection, rows), name)

    return [[of(version, name) for version in versions] for name in names]


def _outputs(connection: Any, source: str) -> dict[str, str]:
    described = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})")
    return {name: kind for name, kind in described.fetchall() if name.startswith(OUTPUT_PREFIX)}
