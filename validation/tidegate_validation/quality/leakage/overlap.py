"""Overlap of held-out and training data: examples that the candidate may know by heart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.arrays import Mask
from tidegate_validation.statistics.sql import quote

_MANY = 0.01
_TIMES = 3.0


@dataclass(frozen=True, slots=True)
class Overlap:
    """Which held-out rows training holds, shape [n], and a WARN that counts them."""

    known: Mask
    finding: Finding


def overlap(held_out: Any, training: Any) -> Overlap | None:
    """The held-out rows that, by all columns that both tables have, occur in training; None where hardly any do, or
    no more than chance has it: as often as they repeat within the held-out data, which has fewer rows to meet.
    """
    import duckdb

    columns = [name for name in held_out.column_names if name in training.column_names]
    if not columns or not held_out.num_rows:
        return None
    names = ", ".join(quote(name) for name in columns)
    with duckdb.connect() as connection:
        connection.register("held_out", held_out)
        connection.register("training", training)
        mine = connection.execute(f"SELECT hash({names}) AS h FROM held_out").fetchnumpy()["h"]
        seen = connection.execute(f"SELECT DISTINCT hash({names}) AS h FROM training").fetchnumpy()["h"]
    rows, known = len(mine), np.isin(mine, seen)
    _, place, copies = np.unique(mine, return_inverse=True, return_counts=True)
    repeated = float((copies[place] > 1).mean())
    if known.mean() <= max(_MANY, _TIMES * _by_chance(repeated, training.num_rows / rows)):
        return None
    sentence = (
        f"{known.sum():,} of {rows:,} held-out examples stand in the training data as well, so that the candidate may "
        "know them by heart: hold out examples that no training saw"
    )
    share = float(known.mean())
    return Overlap(known, Finding("held-out data", "overlap", Outcome.WARN, sentence, number=share, limit=_MANY))


def _by_chance(repeated: float, times: float) -> float:
    """The share of rows that another table holds, of so many times as many rows of the same world, where this share
    repeats within its own."""
    return float(1 - (1 - repeated) ** times)


def after_overlap(leakage: Finding, shared: Overlap | None) -> Finding:
    """What refuses a candidate that is too good begins with the rows that it may know by heart, where there are any."""
    if shared is None or leakage.outcome is not Outcome.FAIL:
        return leakage
    return replace(leakage, sentence=f"{shared.finding.sentence}; on these examples it is {leakage.sentence}")
