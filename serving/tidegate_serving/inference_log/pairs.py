"""Finds the primary answer that each shadow answer in the inference log is a copy of.

Clients may send the same request id again and again. A copy has the engine, the request id and the row of its primary,
and came at the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate_serving.contract.log_record import LATENCY_US, RECEIVED_AT, REQUEST_ID, ROW, STATUS, Role

TOLERANCE_US = 1_000_000
"""How far apart the times of one request may be in its two records. Each batch of records turns the engine's steady
clock into the time of day by reading both clocks one after the other: between them lie microseconds, up to a few times
100 ms where a process is stopped for its CPU quota, and 30 ms where the time of day is slewed (by 500 millionths) for
the minute that a copy waits."""

_KEY = ("engine", REQUEST_ID, ROW)
_SIDE = """
    SELECT row_number() OVER () AS place, engine, {columns} FROM {source}
    WHERE role = '{role}' AND received_at >= $since
"""
_NEIGHBOUR = """
    SELECT copies.place AS copy, served.place AS served,
      abs(epoch_us(copies.{at}) - epoch_us(served.{at})) AS gap
    FROM copies ASOF JOIN served ON {same} AND copies.{at} {side} served.{at}
"""
_PAIRS = """
    WITH served AS MATERIALIZED ({served}), copies AS MATERIALIZED ({copies}),
    near AS (
      SELECT copy, served FROM ({before} UNION {after}) WHERE gap <= {tolerance}
      QUALIFY row_number() OVER (PARTITION BY copy ORDER BY gap, served) = 1
        AND row_number() OVER (PARTITION BY served ORDER BY gap, copy) = 1
    )
    SELECT t, p FROM copies t LEFT JOIN near ON near.copy = t.place LEFT JOIN served p ON p.place = near.served
"""


def paired(primary: str, shadow: str, primary_outputs: Iterable[str], shadow_outputs: Iterable[str]) -> str:
    """SQL for one row a shadow answer, `t`, beside its primary answer, `p`, all of whose fields are null where there is
    none; both are structs of the key, status, latency and outputs. It takes the parameter `since`.

    `primary` and `shadow` stand for the two versions' rows after FROM, with a column `engine`. Of answers with the same
    key those are a pair that are nearest to each other in time, so that each is in one pair at most, and answers whose
    counterpart is not logged are in none. The cost grows as that of sorting does, however often an id comes again.
    """
    same = " AND ".join(f"copies.{name} = served.{name}" for name in _KEY)
    before, after = (_NEIGHBOUR.format(at=RECEIVED_AT, same=same, side=side) for side in (">=", "<="))
    return _PAIRS.format(
        served=_side(primary, Role.PRIMARY, primary_outputs),
        copies=_side(shadow, Role.SHADOW, shadow_outputs),
        before=before,
        after=after,
        tolerance=TOLERANCE_US,
    )


def _side(source: str, role: Role, outputs: Iterable[str]) -> str:
    names = [REQUEST_ID, ROW, RECEIVED_AT, STATUS, LATENCY_US, *(f'"{name}"' for name in outputs)]
    return _SIDE.format(columns=", ".join(names), source=source, role=role.value)
