"""Reads a canary's numbers from the inference log.

In come the log's root and the pair of versions; out go counts, differences and latencies as `CanaryNumbers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate_operators.steps.canary_rule import CanaryNumbers
from tidegate_serving.contract.errors import NotFound
from tidegate_serving.contract.log_record import OUTPUT_PREFIX, RECEIVED_AT, ROLE, STATUS, Role
from tidegate_serving.contract.servable import ServableId


def read_numbers(log_root: Path, identity: ServableId, primary: int, since: datetime) -> CanaryNumbers:
    """What the log says by now of requests received since `since`; zeros where nothing is logged yet."""
    from tidegate_serving.inference_log.compare import compare

    found = compare(log_root, identity.name, primary, identity.version, since=since)
    return CanaryNumbers(
        teed=found.teed,
        errors=found.failed,
        compared=found.compared,
        not_finite=_count_not_finite(log_root, identity, since),
        max_difference=found.max_difference,
        primary_latency_us=_or_zero(found.primary_p50_us),
        tee_latency_us=_or_zero(found.tee_p50_us),
    )


def _count_not_finite(log_root: Path, identity: ServableId, since: datetime) -> int:
    """Teed examples that were answered with a NaN or an infinity in any output, of whatever shape."""
    from tidegate_serving.inference_log.reader import connect, scan

    try:
        source = scan(log_root, identity.name, identity.version)
    except NotFound:
        return 0
    with connect(log_root) as connection:
        described = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})")
        tests = _not_finite_tests(described.fetchall())
        if not tests:
            return 0
        row = connection.execute(
            f"SELECT count(*) FROM {source} WHERE {ROLE} = ? AND {STATUS} = 0 AND {RECEIVED_AT} >= ? "
            f"AND ({' OR '.join(tests)})",
            [Role.TEE.value, since],
        ).fetchone()
    return int(row[0])


def _not_finite_tests(columns: Sequence[tuple[Any, ...]]) -> list[str]:
    from tidegate_serving.inference_log.compare import elements, is_real

    tests = []
    for name, kind in columns:
        if name.startswith(OUTPUT_PREFIX) and is_real(kind):
            column = '"' + name + '"'
            tests.append(f"len([x FOR x IN {elements(column, kind)} IF NOT isfinite(x)]) > 0")
    return tests


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
