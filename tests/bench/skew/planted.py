"""What the skew tests find and name of faults in all rows and in part of the rows, on two very different tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from tests.bench.rows import Row
from tests.bench.skew import data, faults
from tests.bench.skew.faults import Fault
from tests.bench.skew.sizes import Sizes

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.tables import as_table

SEEN = (Outcome.FAIL, Outcome.WARN)

FLIGHTS_ALL = (
    faults.times("distance", 1.609344),
    faults.times("air_time", 60.0),
    faults.times("distance", 1000.0),
    faults.times("pressure", 0.75),
    faults.clock("hour", 5),
    faults.swapped("air_time", "distance"),
    faults.swapped("origin", "dest"),
    faults.swapped("temp", "humid"),
    faults.renamed("carrier", "UA", "United"),
    faults.merged("carrier", "DL", "UA"),
    faults.clipped("air_time", 250.0),
    faults.clipped("arr_delay", 30.0),
    faults.rounded("air_time", 10.0),
    faults.rounded("temp", 1.0),
    faults.frozen("temp"),
    faults.frozen("carrier"),
    faults.frozen(data.PREDICTION, "collapsed"),
)
FLIGHTS_PART = (
    faults.part_times("distance", 1.609344, 0.2),
    faults.part_times("air_time", 60.0, 0.2),
    faults.some("pressure", 0.0, 0.05, faults.kind("default value", "new value", value=0.0), "zeros"),
    faults.some("air_time", 0.0, 0.05, faults.kind("default value", "new value", value=0.0), "zeros"),
    faults.some("wind_speed", 0.0, 0.05, faults.kind("default value", value=0.0), "zeros"),
    faults.some("arr_delay", -1.0, 0.05, faults.kind("default value", value=-1.0), "minus one"),
    faults.beyond("distance", 5100.0, 0.02),
    faults.beyond("hour", 24.0, 0.02),
    faults.nulls("distance", 0.05),
    faults.nulls("carrier", 0.05),
    faults.nulls("temp", 0.05),
    faults.unseen("carrier", 0.02),
    faults.unseen("tailnum", 0.02),
    faults.duplicated(0.05),
    faults.shuffled("air_time"),
    faults.shuffled("dest"),
    faults.shuffled("arr_delay"),
)
ORDERS_ALL = (
    faults.times("weight", 2.20462),
    faults.times("price", 1.609344),
    faults.times("price", 100.0),
    faults.times("weight", 1000.0),
    faults.stamp("packed_at", 5),
    faults.swapped("weight", "shipping"),
    faults.swapped("city", "payment"),
    faults.renamed("city", "city 02", "City Two"),
    faults.renamed("payment", "invoice", "bill"),
    faults.merged("city", "city 03", "city 01"),
    faults.clipped("price", 80.0),
    faults.clipped("weight", 4.0),
    faults.rounded("price", 1.0),
    faults.rounded("weight", 0.1),
    faults.rounded("price", 1.0, truncate=True),
    faults.frozen("weight"),
    faults.frozen("quantity"),
    faults.frozen(data.PREDICTION, "collapsed"),
)
ORDERS_PART = (
    faults.part_times("weight", 1000.0, 0.2),
    faults.part_times("price", 100.0, 0.2),
    faults.part_times("weight", 2.20462, 0.2),
    faults.some("price", 0.0, 0.05, faults.kind("default value", "new value", value=0.0), "zeros"),
    faults.some("weight", -1.0, 0.05, faults.kind("default value", "new value", value=-1.0), "minus ones"),
    faults.some("shipping", 0.0, 0.05, faults.kind("default value", "new value", value=0.0), "zeros"),
    faults.some("quantity", 0.0, 0.05, faults.kind("default value", "new value", value=0.0), "zeros"),
    faults.beyond("weight", 17.0, 0.02),
    faults.beyond("quantity", 14.0, 0.02),
    faults.nulls("price", 0.05),
    faults.nulls("city", 0.05),
    faults.unseen("city", 0.02),
    faults.unseen("payment", 0.02),
    faults.duplicated(0.05),
    faults.shuffled("weight"),
    faults.shuffled("shipping"),
)


COLUMNS = Columns(time=data.TIME, prediction=data.PREDICTION, ignore=(data.KEY,))


@dataclass(frozen=True, slots=True)
class Result:
    """How one planted fault came out."""

    fault: str
    found: bool
    first: bool
    named: bool


Draw = Callable[[int], tuple[pd.DataFrame, pd.DataFrame]]


def draw_flights(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Seven days of spring, and all its other days."""
    rows = data.months(1, 5)
    return data.split_days(rows, data.random_days(rows, 7, seed))


def draw_orders(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sixty days, and the seven that follow."""
    return data.orders(2 * seed, 60, 500), data.orders(2 * seed + 1, 7, 500, 16_060)


def judge(before: pd.DataFrame, now: pd.DataFrame) -> SkewReport:
    """The report, as a user would have it made."""
    return report_on_tables(before, now, COLUMNS)


def result_of(fault: Fault, report: SkewReport) -> Result:
    """Whether the report blames the right column, first, with the right cause."""
    seen = [one for one in report.findings if one.outcome in SEEN]
    about = [one for one in seen if one.subject in fault.subjects]
    first = bool(seen) and seen[0].subject in fault.subjects
    return Result(fault.name, bool(about), first, any(fault.named(one.cause or {}) for one in about[:2]))


def run(draw: Draw, planted: Sequence[Fault], seeds: Sequence[int]) -> list[Result]:
    """Every fault on every draw."""
    found = []
    for seed in seeds:
        before, now = draw(seed)
        profile = profile_table(as_table(before, "days before"), COLUMNS, now.columns.tolist())
        for place, fault in enumerate(planted):
            broken = as_table(fault.plant(now, np.random.default_rng([seed, place])), "broken days")
            found.append(result_of(fault, report_on_table(profile, broken, COLUMNS)))
    return found


def rows_of(results: Sequence[Result], where: str, found: float, first: float, named: float) -> list[Row]:
    """Three shares with their targets, and each fault that was missed or misnamed."""
    rows = []
    for word, least in (("found", found), ("first", first), ("named", named)):
        share = 100 * float(np.mean([getattr(one, word) for one in results]))
        rows.append(Row(f"faults in {where}: {word}", share, "%", f"at least {100 * least:g}", share >= 100 * least))
    for name in dict.fromkeys(one.fault for one in results):
        these = [one for one in results if one.fault == name]
        for word in ("found", "first", "named"):
            share = 100 * float(np.mean([getattr(one, word) for one in these]))
            if share < 100:
                rows.append(Row(f"  {word}: {name}", share, "%", "-", None))
    return rows


def all_rows(sizes: Sizes) -> list[Row]:
    """Faults that reach every row."""
    return [
        *rows_of(run(draw_flights, FLIGHTS_ALL, range(sizes.faults)), "all rows, flights", 1.0, 1.0, 0.95),
        *rows_of(run(draw_orders, ORDERS_ALL, range(sizes.faults)), "all rows, orders", 1.0, 1.0, 0.95),
    ]


def part_of_rows(sizes: Sizes) -> list[Row]:
    """Faults that reach some rows."""
    return [
        *rows_of(run(draw_flights, FLIGHTS_PART, range(sizes.faults)), "part of rows, flights", 0.95, 0.95, 0.9),
        *rows_of(run(draw_orders, ORDERS_PART, range(sizes.faults)), "part of rows, orders", 0.95, 0.95, 0.9),
    ]
