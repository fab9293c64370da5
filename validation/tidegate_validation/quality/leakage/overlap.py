"""Overlap of held-out and training data: examples that the candidate may know by heart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.sql import quote

_MANY = 0.01
_TIMES = 3.0


def overlap(held_out: Any, training: Any) -> Finding | None:
    """A WARN where held-out rows, by all columns that both tables have, occur in training; None where hardly any do.

    Where rows repeat within the held-out data as well, they are not told apart, and nothing is said.
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
            f"WITH held AS (SELECT hash({names}) AS h FROM held_out), seen AS (SELECT DISTINCT hash({names}) AS h "
            "FROM training) SELECT count(*), count(DISTINCT h), count(*) FILTER (h IN (SELECT h FROM seen)) FROM held"
        ).fetchone()
    rows, distinct, known = counts if counts is not None else (0, 0, 0)
    if not rows or known / rows <= max(_MANY, _TIMES * (1 - distinct / rows)):
        return None
    sentence = (
        f"{known:,} of {rows:,} held-out examples stand in the training data as well, so that the candidate may know "
        "them by heart: hold out examples that no training saw"
    )
    return Finding("held-out data", "overlap", Outcome.WARN, sentence, number=known / rows, limit=_MANY)


def after_overlap(leakage: Finding, shared: Finding | None) -> Finding:
    """What refuses a candidate that is too good begins with the rows that it may know by heart, where there are any."""
    if shared is None or leakage.outcome is not Outcome.FAIL:
        return leakage
    return replace(leakage, sentence=f"{shared.sentence}; on these examples it is {leakage.sentence}")
