"""Compares each shadow answer in the inference log with the primary answer to the same request and row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound, error_from
from tidegate_serving.inference_log.comparison import Comparison, OutputComparison, SideComparison
from tidegate_serving.inference_log.pairs import paired
from tidegate_serving.inference_log.reader import duckdb_module, read_again
from tidegate_serving.inference_log.sides import Side, sides

_REAL = ("FLOAT", "DOUBLE")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_QUANTILES = (0.5, 0.9, 0.99)
_BOTH = "p.status = 0 AND t.status = 0"


def compare(
    root: Path,
    model: str,
    primary_version: int,
    shadow_version: int,
    *,
    outputs: Sequence[str] | None = None,
    since: datetime,
) -> Comparison:
    """Compares `outputs` of rows received since a moment, or for None all outputs that both versions give.

    Of a log of several signatures each is compared by itself; where two have an output of one name, the comparison
    calls it SIGNATURE/OUTPUT. An output with several elements per row is compared element by element; another number of
    them counts as infinite. Nothing logged yet is a comparison of zero. Raises InvalidInput where an output is not in
    the log of both versions, and for a file of the log that cannot be read.
    """
    duckdb = duckdb_module()
    moment = {"since": since.astimezone(UTC)}

    def read() -> list[_Pairs]:
        by_signature = sides(connection, root, model, (primary_version, shadow_version))
        found = []
        for place, (primary, shadow) in enumerate(by_signature):
            one = _Pairs(f"pairs{place}", primary.signature, _kinds(primary, shadow, outputs))
            query = paired(primary.source, shadow.source, one.kinds, one.kinds)
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {one.table} AS {query}", moment)
            found.append(one)
        return found

    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        found = read_again(read)
        _check_asked(found, outputs)
        return _measured(connection, found)
    except NotFound:
        return Comparison()
    finally:
        connection.close()


class _Pairs(NamedTuple):
    """The table of one signature's pairs, and the DuckDB types of each output column that both versions have."""

    table: str
    signature: str
    kinds: Mapping[str, tuple[str, str]]


def _kinds(primary: Side, shadow: Side, outputs: Sequence[str] | None) -> dict[str, tuple[str, str]]:
    left, right = primary.outputs, shadow.outputs
    wanted = list(left) if outputs is None else [log_record.output_column(output) for output in outputs]
    return {column: (left[column], right[column]) for column in wanted if column in left and column in right}


def _check_asked(found: Sequence[_Pairs], outputs: Sequence[str] | None) -> None:
    for column in map(log_record.output_column, outputs or ()):
        if not any(column in one.kinds for one in found):
            raise InvalidInput(f"column {column!r} is not in the log of both versions: name an output that both give")


def is_real(kind: str) -> bool:
    """Whether a column of this DuckDB type holds real numbers, one per row or in lists of any depth."""
    return _element(kind) in _REAL


def unequal(left: str, left_kind: str, right: str, right_kind: str) -> str:
    """SQL for whether two values are not the same; those that cannot stand for numbers of one shape, as text."""
    kinds = {_element(left_kind), _element(right_kind)}
    if left_kind.count("[]") != right_kind.count("[]") or (
        len(kinds) > 1 and not kinds <= {*_REAL, *_WHOLE, "BOOLEAN"}
    ):
        left, right = f"{left}::VARCHAR", f"{right}::VARCHAR"
    return f"{left} IS DISTINCT FROM {right}"


def elements(column: str, kind: str) -> str:
    """SQL for all elements of one row of `column`, as a list, whatever the depth of its DuckDB type."""
    depth = kind.count("[]")
    return f"[{column}]" if depth == 0 else "flatten(" * (depth - 1) + column + ")" * (depth - 1)


def _measured(connection: Any, found: Sequence[_Pairs]) -> Comparison:
    both = ", ".join(f"{{'status': {side}.status, 'latency_us': {side}.latency_us}} AS {side}" for side in "pt")
    every = " UNION ALL ".join(f"SELECT {both} FROM {one.table}" for one in found)
    connection.execute(f"CREATE TEMP VIEW pairs AS {every}")
    shadowed, compared, failed = connection.execute(
        f"SELECT count(*), count(*) FILTER ({_BOTH}), count(*) FILTER (p.status = 0 AND t.status <> 0) FROM pairs"
    ).fetchone()
    outputs = _outputs(connection, found)
    return Comparison(shadowed, compared, failed, outputs, _side(connection, "p"), _side(connection, "t"))


def _outputs(connection: Any, found: Sequence[_Pairs]) -> dict[str, OutputComparison]:
    """By name; of several signatures those that have it, since a file may hold rows of more than one."""
    measured = []
    for one in found:
        for column, kinds in one.kinds.items():
            output = _output(connection, one.table, column, *kinds)
            if output.elements or not one.signature:
                measured.append((one.signature, column.removeprefix(log_record.OUTPUT_PREFIX), output))
    often = Counter(name for _, name, _ in measured)
    return {f"{signature}/{name}" if often[name] > 1 else name: output for signature, name, output in measured}


def _side(connection: Any, side: str) -> SideComparison:
    found = connection.execute(
        f"SELECT quantile_cont({side}.latency_us, {list(_QUANTILES)}) FILTER ({_BOTH}) FROM pairs"
    ).fetchone()[0]
    failed = connection.execute(
        f"SELECT {side}.status, count(*) FROM pairs WHERE {side}.status <> 0 GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    errors = {error_from(status, "").code: count for status, count in failed}
    p50, p90, p99 = (float(value) for value in found or (math.nan,) * len(_QUANTILES))
    return SideComparison(p50, p90, p99, errors)


def _output(connection: Any, table: str, column: str, primary_kind: str, shadow_kind: str) -> OutputComparison:
    number = _is_number(primary_kind) and _is_number(shadow_kind)
    real = number and (is_real(primary_kind) or is_real(shadow_kind))
    primary, shadow = elements(f'p."{column}"', primary_kind), elements(f't."{column}"', shadow_kind)
    answered = f'{table} WHERE {_BOTH} AND (p."{column}" IS NOT NULL OR t."{column}" IS NOT NULL)'
    pairs = f"(SELECT unnest({primary}) AS l, unnest({shadow}) AS r FROM {answered})"
    differs = unequal("l", _element(primary_kind), "r", _element(shadow_kind))
    count, unlike = connection.execute(f"SELECT count(*), count(*) FILTER ({differs}) FROM {pairs}").fetchone()
    largest, mean, correlation = math.nan, math.nan, math.nan
    if number and count:
        largest, mean, correlation = _figures(connection.execute(_differences(pairs)).fetchone())
    several = primary_kind.endswith("[]") and shadow_kind.endswith("[]")
    top = _top_agreement(connection, answered, primary, shadow) if real and several and count else math.nan
    agreement = 1 - unlike / count if count else math.nan
    return OutputComparison(real, count, unlike, agreement, largest, mean, correlation, top)


def _is_number(kind: str) -> bool:
    return _element(kind) in _REAL + _WHOLE


def _element(kind: str) -> str:
    return kind.replace("[]", "")


def _figures(row: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in row]


def _differences(pairs: str) -> str:
    left, right = "l::DOUBLE", "r::DOUBLE"
    gap = (
        f"CASE WHEN (l IS NULL) <> (r IS NULL) THEN 'Infinity'::DOUBLE WHEN {left} = {right} THEN 0 "
        f"WHEN isnan({left}) <> isnan({right}) THEN 'Infinity'::DOUBLE ELSE abs({left} - {right}) END"
    )
    # Beyond this, squares overflow; NaN is larger than any number here.
    finite = f"abs({left}) < 1e150 AND abs({right}) < 1e150"
    return f"SELECT max({gap}), avg({gap}), corr({left}, {right}) FILTER ({finite}) FROM {pairs}"


def _top_agreement(connection: Any, answered: str, primary: str, shadow: str) -> float:
    """The share of rows of more than one element whose largest ones stand at the same place."""
    top = "list_position({0}, list_max({0}))"
    same = f"{top.format(primary)} IS NOT DISTINCT FROM {top.format(shadow)}"
    rows, agreed = connection.execute(
        f"SELECT count(*), count(*) FILTER ({same}) FROM {answered} AND len({primary}) > 1"
    ).fetchone()
    return agreed / rows if rows else math.nan
