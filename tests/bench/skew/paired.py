"""Faults in values of the same examples: what is found of them and named, and that float noise is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
from tests.bench.rows import Row
from tests.bench.skew import data, faults
from tests.bench.skew.faults import Fault
from tests.bench.skew.planted import SEEN
from tests.bench.skew.sizes import Sizes

from tidegate_validation.skew.pairs import compare_pairs
from tidegate_validation.tables import as_table

NOISE = "float noise"


def _stale(column: str, share: float) -> Fault:
    def plant(rows: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
        hit = random.random(len(rows)) < share
        return rows.assign(**{column: rows[column].mask(hit, rows[column].shift(1))})

    return Fault(f"stale in {share:.0%} of {column}", (column,), plant, faults.kind("stale"))


def _offset(column: str, share: float) -> Fault:
    return Fault(
        f"offset of 1 % in {column}",
        (column,),
        faults.change(column, lambda values, _: values + share * float(values.mean())),
        faults.kind("constant offset"),
    )


def _copied(column: str, other: str) -> Fault:
    return Fault(
        f"{column} holds {other}",
        (column,),
        lambda rows, _: rows.assign(**{column: rows[other]}),
        faults.kind("other column", column=other),
    )


def _noise(rows: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    numbers = rows.select_dtypes("float")
    noise = 1 + random.normal(0, 1e-9, numbers.shape)
    return rows.assign(**{str(name): values for name, values in (numbers * noise).items()})


FLIGHTS = (
    _stale("arr_delay", 0.05),
    _stale("dest", 0.05),
    faults.times("air_time", 1.01),
    _offset("distance", 0.01),
    _copied("dep_delay", "arr_delay"),
)
ORDERS = (
    _stale("price", 0.05),
    _stale("weight", 0.05),
    faults.times("weight", 1.01),
    _offset("price", 0.01),
    _copied("price", "shipping"),
)


def measure(sizes: Sizes) -> list[Row]:
    """Keyed pairs on both tables."""
    found, named, noise, misses = [], [], [], []
    for seed in range(sizes.pairs):
        for rows, planted in ((_of_flights(seed), FLIGHTS), (data.orders(seed, 7, 500), ORDERS)):
            before = as_table(rows, "days")
            for place, fault in enumerate(planted):
                now = as_table(fault.plant(rows, np.random.default_rng([seed, place])), "broken days")
                blamed = [one for one in compare_pairs(before, now, [data.KEY], data.TIME) if one.outcome in SEEN]
                found.append(bool(blamed) and all(one.subject in fault.subjects for one in blamed))
                named.append(any(fault.named(one.cause or {}) for one in blamed))
                misses += [] if found[-1] and named[-1] else [fault.name]
            same = as_table(_noise(rows, np.random.default_rng(seed)), "the same days")
            noise.append(bool(compare_pairs(before, same, [data.KEY], data.TIME)))
    return [
        Row("keyed pairs: found", 100 * float(np.mean(found)), "%", "at least 95", bool(np.mean(found) >= 0.95)),
        Row("keyed pairs: named", 100 * float(np.mean(named)), "%", "at least 90", bool(np.mean(named) >= 0.9)),
        Row(f"keyed pairs: {NOISE} blamed", float(sum(noise)), f"of {len(noise)}", "never", not any(noise)),
        *(Row(f"  missed or misnamed: {name}", misses.count(name), "times", "-", None) for name in sorted(set(misses))),
    ]


def _of_flights(seed: int) -> pd.DataFrame:
    rows = data.months(1, 5)
    return data.split_days(rows, data.random_days(rows, 7, seed))[1]
