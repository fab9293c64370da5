"""Pairs each teed answer with the primary one of the same request and row, and says how far they are apart.

The canary asks; the pairs come from the inference log by request id and row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.log_record import Role
from tidegate_serving.inference_log.reader import duckdb_module, scan

_REAL = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the pairs show.

    `teed` counts answered copies, `compared` those whose primary answer is logged too and which succeeded on both
    sides, `failed` the copies that did not succeed where the primary did. `max_difference` is the largest absolute
    difference of a real output (NaN against a number counts as infinite), `mean_difference` by output;
    `disagreements` counts pairs by string, boolean or integer output that differ. Latencies are medians, microseconds.
    """

    teed: int = 0
    compared: int = 0
    failed: int = 0
    max_difference: float = 0.0
    mean_difference: Mapping[str, float] | None = None
    disagreements: Mapping[str, int] | None = None
    primary_p50_us: float = math.nan
    tee_p50_us: float = math.nan


def compare(
    root: Path,
    model: str,
    primary_version: int,
    tee_version: int,
    *,
    outputs: Sequence[str] | None = None,
    since: datetime,
) -> Comparison:
    """Compares `outputs` of rows received since a moment, or for None all outputs that both versions give.

    An output with several elements per row is compared element by element; another number of them counts as infinite.
    Nothing logged yet is a comparison of zero. Raises InvalidInput where an output is not in the log of both versions.
    """
    try:
        primary, tee = scan(root, model, primary_version), scan(root, model, tee_version)
    except NotFound:
        return Comparison()
    connection = duckdb_module().connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        kinds = _kinds(connection, primary, tee, outputs)
        moment = since.astimezone(UTC)
        connection.execute(_pairs(primary, tee), [moment, moment])
        return _measured(connection, kinds)
    finally:
        connection.close()


def _kinds(connection: Any, primary: str, tee: str, outputs: Sequence[str] | None) -> dict[str, tuple[str, str]]:
    """The DuckDB types of each column in the two logs."""
    left, right = _columns(connection, primary), _columns(connection, tee)
    if outputs is None:
        wanted = [name for name in left if name in right and name.startswith(log_record.OUTPUT_PREFIX)]
    else:
        wanted = [log_record.output_column(output) for output in outputs]
    for column in wanted:
        if column not in left or column not in right:
            raise InvalidInput(f"column {column!r} is not in the log of both versions: name an output that both give")
    return {column: (left[column], right[column]) for column in wanted}


def is_real(kind: str) -> bool:
    """Whether a column of this DuckDB type holds real numbers, one per row or in lists of any depth."""
    return kind.replace("[]", "") in _REAL


def elements(column: str, kind: str) -> str:
    """SQL for all elements of one row of `column`, as a list, whatever the depth of its DuckDB type."""
    depth = kind.count("[]")
    return f"[{column}]" if depth == 0 else "flatten(" * (depth - 1) + column + ")" * (depth - 1)


def _columns(connection: Any, source: str) -> dict[str, str]:
    found = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})").fetchall()
    return dict(found)


def _pairs(primary: str, tee: str) -> str:
    key = f"{log_record.REQUEST_ID}, {log_record.ROW}"
    return (
        f"CREATE TEMP TABLE pairs AS SELECT p, t FROM "
        f"(SELECT * FROM {tee} WHERE role = '{Role.TEE.value}' AND received_at >= ?) t "
        f"LEFT JOIN (SELECT * FROM {primary} WHERE role = '{Role.PRIMARY.value}' AND received_at >= ?) p USING ({key})"
    )


def _measured(connection: Any, kinds: Mapping[str, tuple[str, str]]) -> Comparison:
    both = "p.status = 0 AND t.status = 0"
    teed, compared, failed, primary_p50, tee_p50 = connection.execute(
        f"SELECT count(*), count(*) FILTER ({both}), count(*) FILTER (p.status = 0 AND t.status <> 0), "
        f"median(p.latency_us) FILTER ({both}), median(t.latency_us) FILTER ({both}) FROM pairs"
    ).fetchone()
    largest, means, unequal = 0.0, {}, {}
    for column, (primary_kind, tee_kind) in kinds.items():
        name = column.removeprefix(log_record.OUTPUT_PREFIX)
        if is_real(primary_kind) or is_real(tee_kind):
            most, mean = connection.execute(_difference(column, primary_kind, tee_kind, both)).fetchone()
            largest, means[name] = max(largest, most or 0.0), mean or 0.0
        else:
            differs = f'p."{column}" IS DISTINCT FROM t."{column}"'
            unequal[name] = connection.execute(f"SELECT count(*) FROM pairs WHERE {both} AND {differs}").fetchone()[0]
    return Comparison(
        teed=teed,
        compared=compared,
        failed=failed,
        max_difference=largest,
        mean_difference=means,
        disagreements=unequal,
        primary_p50_us=math.nan if primary_p50 is None else float(primary_p50),
        tee_p50_us=math.nan if tee_p50 is None else float(tee_p50),
    )


def _difference(column: str, primary_kind: str, tee_kind: str, both: str) -> str:
    left, right = "l::DOUBLE", "r::DOUBLE"
    gap = (
        f"CASE WHEN (l IS NULL) <> (r IS NULL) THEN 'Infinity'::DOUBLE WHEN {left} = {right} THEN 0 "
        f"WHEN isnan({left}) <> isnan({right}) THEN 'Infinity'::DOUBLE ELSE abs({left} - {right}) END"
    )
    primary, tee = elements(f'p."{column}"', primary_kind), elements(f't."{column}"', tee_kind)
    pairs = f"SELECT unnest({primary}) AS l, unnest({tee}) AS r FROM pairs WHERE {both}"
    return f"SELECT max({gap}), avg({gap}) FROM ({pairs})"
