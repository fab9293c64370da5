"""Counts a canary's requests in the inference log: answers compared, faults, differences and latencies.

In the log of a group both answers come from the same engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule

if TYPE_CHECKING:
    from tidegate_serving.inference_log.sides import Side

_ROWS = """
    SELECT t.engine, t.request_id, t.received_at,
      p.status IS NOT NULL AS paired, t.status <> 0 AS t_error, p.status <> 0 AS p_error,
      t.status = 0 AND ({t_bad}) AS t_bad, p.status = 0 AND ({p_bad}) AS p_bad,
      t.latency_us AS t_us, p.latency_us AS p_us, {gap} AS gap, {differs} AS differs
    FROM ({pairs})
"""
_REQUESTS = """
    SELECT bool_and(paired) AS paired, bool_or(t_error) AS t_error, bool_or(t_bad) AS t_bad,
      bool_or(p_error OR p_bad) AS p_fault, max(t_us) AS t_us, max(p_us) AS p_us,
      max(CASE WHEN NOT (t_error OR p_error OR t_bad OR p_bad) THEN gap END) AS gap,
      bool_or(NOT (t_error OR p_error) AND differs) AS differs
    FROM ({rows}) GROUP BY engine, request_id, received_at
"""
"""All rows of a request have the same time; a client may send its id again."""
_COUNTS = """
    SELECT count(*), count(*) FILTER (paired),
      count(*) FILTER (paired AND t_error AND NOT p_fault),
      count(*) FILTER (paired AND t_bad AND NOT t_error AND NOT p_fault),
      count(*) FILTER (paired AND p_fault AND NOT (t_error OR t_bad)),
      count(*) FILTER (paired AND NOT t_error AND NOT p_fault AND (differs OR coalesce(gap > {tolerance}, false))),
      count(*) FILTER (paired AND t_us > {factor} * p_us + {grace}),
      coalesce(max(gap) FILTER (paired), 0), median(p_us) FILTER (paired), median(t_us) FILTER (paired)
    FROM ({requests})
"""


def read_numbers(
    log_root: Path, identity: ServableId, primary: int, since: datetime, rule: CanaryRule
) -> CanaryNumbers:
    """What the log says by now of requests received since `since`; zeros where nothing is logged yet."""
    from tidegate_serving.inference_log.reader import connect, read_again
    from tidegate_serving.inference_log.sides import sides

    moment, versions = {"since": since.astimezone(UTC)}, (primary, identity.version)

    def read() -> Any:
        query = _query(sides(connection, log_root, identity.name, versions), rule)
        return connection.execute(query, moment).fetchone()

    if not is_logged(log_root, identity.name, versions):
        return CanaryNumbers()
    with connect(log_root) as connection:
        found = read_again(read)
    shadowed, compared, errors, not_finite, primary_faults, disagreements, slow, gap, primary_us, shadow_us = found
    return CanaryNumbers(
        shadowed=shadowed,
        compared=compared,
        errors=errors,
        not_finite=not_finite,
        primary_faults=primary_faults,
        disagreements=disagreements,
        slow=slow,
        max_difference=float(gap),
        primary_latency_us=float(primary_us or 0.0),
        shadow_latency_us=float(shadow_us or 0.0),
    )


def is_logged(log_root: Path, model: str, versions: Sequence[int]) -> bool:
    """Whether something is logged of each of the versions."""
    from tidegate_serving.inference_log.reader import scan

    try:
        return all(scan(log_root, model, version) for version in versions)
    except NotFound:
        return False


def _query(parts: Sequence[Sequence[Side]], rule: CanaryRule) -> str:
    rows = " UNION ALL ".join(_rows(primary, shadow) for primary, shadow in parts)
    tolerance = "'Infinity'::DOUBLE" if rule.max_difference is None else repr(rule.max_difference)
    return _COUNTS.format(
        requests=_REQUESTS.format(rows=rows),
        tolerance=tolerance,
        factor=rule.latency_factor,
        grace=rule.latency_grace_us,
    )


def _rows(primary: Side, shadow: Side) -> str:
    from tidegate_serving.inference_log.compare import is_real
    from tidegate_serving.inference_log.pairs import paired

    outputs, shadow_outputs = primary.outputs, shadow.outputs
    both = [name for name in outputs if name in shadow_outputs]
    real = [name for name in both if is_real(outputs[name]) and is_real(shadow_outputs[name])]
    return _ROWS.format(
        pairs=paired(primary.source, shadow.source, outputs, shadow_outputs),
        t_bad=any_of(not_finite("t", shadow_outputs)),
        p_bad=any_of(not_finite("p", outputs)),
        gap=f"greatest({', '.join(['0.0', *(_gap(name, outputs[name], shadow_outputs[name]) for name in real)])})",
        differs=any_of([_differs(name, outputs[name], shadow_outputs[name]) for name in both if name not in real]),
    )


def any_of(tests: Sequence[str]) -> str:
    """SQL text that is true where one of these is, and nowhere null."""
    return " OR ".join(f"coalesce({test}, false)" for test in tests) or "false"


def not_finite(alias: str, columns: Mapping[str, str]) -> list[str]:
    """Tests of whether any element of any real output is a NaN or an infinity."""
    from tidegate_serving.inference_log.compare import elements, is_real

    return [
        f"len([x FOR x IN {elements(_column(alias, name), kind)} IF NOT isfinite(x)]) > 0"
        for name, kind in columns.items()
        if is_real(kind)
    ]


def _differs(name: str, primary_kind: str, shadow_kind: str) -> str:
    from tidegate_serving.inference_log.compare import unequal

    return unequal(_column("p", name), primary_kind, _column("t", name), shadow_kind)


def _gap(name: str, primary_kind: str, shadow_kind: str) -> str:
    """The largest difference of any element; infinite where one side has more of them."""
    from tidegate_serving.inference_log.compare import elements

    left, right = elements(_column("p", name), primary_kind), elements(_column("t", name), shadow_kind)
    largest = f"list_max([abs(x[1]::DOUBLE - x[2]::DOUBLE) FOR x IN list_zip({left}, {right})])"
    return f"CASE WHEN len({left}) <> len({right}) THEN 'Infinity'::DOUBLE ELSE coalesce({largest}, 0.0) END"


def _column(alias: str, name: str) -> str:
    return f'{alias}."{name}"'
