"""Overlap of held-out and training data: examples that the candidate may know by heart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.sql import quote

_MANY = 0.01
_TIMES = 3.0


def overlap(held_out: Any, training: Any) -> Finding | None:
    """A WARN where held-out rows, by all columns that both tables have, occur in training; None where hardly any do, or
    no more than chance has it: as often as they repeat within the held-out data, which has fewer rows to meet.
    """
    import duckdb

    columns = [name for name in held_out.column_names if name in training.column_names]
    if not columns:
        return None
    names = ", ".join(quote(name) for name in columns)
    with duckdb.connect() as connection:
        connection.register("held_out", held_out)
        connection.register("training", training)
        counts = connection.execute(
            f"WITH held AS (SELECT h, count(*) OVER (PARTITION BY h) AS copies FROM (SELECT hash({names}) AS h FROM "
            f"held_out)), seen AS (SELECT DISTINCT hash({names}) AS h FROM training) SELECT count(*), "
            "count(*) FILTER (copies > 1), count(*) FILTER (h IN (SELECT h FROM seen)) FROM held"
        ).fetchone()
    rows, repeated, known = counts if counts is not None else (0, 0, 0)
    if not rows or known / rows <= max(_MANY, _TIMES * _by_chance(repeated / rows, training.num_rows / rows)):
        return None
    sentence = (
        f"{known:,} of {rows:,} held-out examples stand in the training data as well, so that the candidate may know "
        "them by heart: hold out examples that no training saw"
    )
    return Finding("held-out data", "overlap", Outcome.WARN, sentence, number=known / rows, limit=_MANY)


def _by_chance(repeated: float, times: float) -> float:
    """The share of rows that another table holds, of so many times as many rows of the same world, where this share
    repeats within its own."""
    return float(1 - (1 - repeated) ** times)


def after_overlap(leakage: Finding, shared: Finding | None) -> Finding:
    """What refuses a candidate that is too good begins with the rows that it may know by heart, where there are any."""
    if shared is None or leakage.outcome is not Outcome.FAIL:
        return leakage
    return replace(leakage, sentence=f"{shared.sentence}; on these examples it is {leakage.sentence}")
