"""Single values whose weight wanders, and extremes: days that follow each other share them, which is no fault."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.measures.distance import days_alone
from tidegate_validation.skew.measures.likeness import Apart, Likeness, Timeline
from tidegate_validation.skew.measures.numbers import measure_feature
from tidegate_validation.skew.measures.points import heaviest_excess
from tidegate_validation.statistics import FeatureCounts, make_profile
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import NumericBins
from tidegate_validation.statistics.points import weigh
from tidegate_validation.statistics.profile import FeatureProfile, Role
from tidegate_validation.statistics.reference import tail_clusters
from tidegate_validation.statistics.sample import ValueSample
from tidegate_validation.statistics.sql import Family

DAY = 86_400
FIRST = 19_000
DAYS = 63
WINDOW = 7
ROWS = 200
SEEDS = 200
ALPHA = 0.05
MARGIN = 0.01


def wandering(random: np.random.Generator, alike: float) -> Floats:
    """A level for each day, of deviation 1; each resembles the one before as `alike` says."""
    level = np.empty(DAYS)
    level[0] = random.normal()
    for day in range(1, DAYS):
        level[day] = alike * level[day - 1] + (1 - alike**2) ** 0.5 * random.normal()
    return level


def feature(bins: NumericBins, sample: ValueSample, counts: FeatureCounts) -> FeatureProfile:
    """The profile of one column of numbers."""
    return FeatureProfile(
        "x",
        "DOUBLE",
        Family.FLOAT,
        Role.INPUT,
        rows=int(sample.n.sum()),
        missing=0,
        infinite=0,
        bins=bins,
        minimum=float(sample.values.min()),
        maximum=float(sample.values.max()),
        points=weigh(sample),
        clusters=tail_clusters(bins, counts),
    )


def split(values: Floats, blocks: Integers) -> tuple[ValueSample, ValueSample]:
    """All days but the last week, and that."""
    late = blocks >= FIRST + DAYS - WINDOW
    return _sample(values[~late], blocks[~late]), _sample(values[late], blocks[late])


def _sample(values: Floats, blocks: Integers) -> ValueSample:
    """How often each value came on each day."""
    order = np.lexsort((blocks, values))
    values, blocks = values[order], blocks[order]
    first = np.flatnonzero(np.append(True, (np.diff(values) != 0) | (np.diff(blocks) != 0)))
    return ValueSample(values[first], blocks[first].astype(np.int64), np.diff(np.append(first, len(values))))


def counted(bins: NumericBins, sample: ValueSample) -> FeatureCounts:
    return FeatureCounts.from_rows(sample.blocks, bins.assign(sample.values), sample.n)


def p_value_of_a_stop(seed: int, alike: float, added: float = 0.0) -> float:
    """Of the weight of zeros in the turns of a machine that stands still more in some weeks than in others."""
    random = np.random.default_rng(seed)
    share = 0.08 * np.exp(0.8 * wandering(random, alike))
    blocks = np.repeat(np.arange(FIRST, FIRST + DAYS), ROWS)
    still = random.random(DAYS * ROWS) < np.repeat(np.minimum(share, 0.9), ROWS)
    still |= (blocks >= FIRST + DAYS - WINDOW) & (random.random(DAYS * ROWS) < added)
    before, now = split(np.where(still, 0.0, random.normal(900, 200, DAYS * ROWS)), blocks)
    bins = NumericBins((-1.0, 1.0, 800.0, 1000.0))
    counts = counted(bins, before)
    series = days_alone(counts, [(0,), (1,), (2,), (3,), (4,)], ordered=True)
    line = Timeline.of(*_days(0, DAYS - WINDOW), *_days(DAYS - WINDOW, DAYS))
    apart = Likeness.of({"x": series} if series is not None else {}).apart("x", line)
    found = heaviest_excess(feature(bins, before, counts), now, WINDOW, apart, MARGIN)
    return 1.0 if found is None else found.p_value(found.limit(MARGIN))


def _days(first: int, end: int) -> tuple[Floats, Floats]:
    return np.arange(FIRST + first, FIRST + end, dtype=np.float64), np.full(end - first, ROWS, dtype=np.float64)


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_a_value_that_weighs_more_for_weeks_hardly_ever_fails(alike: float) -> None:
    failed = sum(p_value_of_a_stop(seed, alike) < ALPHA for seed in range(SEEDS))
    assert failed <= ALPHA * SEEDS


def test_a_value_that_weighs_more_than_weeks_explain_is_found() -> None:
    assert sum(p_value_of_a_stop(seed, 0.0, 0.4) < ALPHA for seed in range(20)) >= 18


def p_value_of_air(seed: int, alike: float, spread: float = 3.0, added: float = 0.0) -> float:
    """Of degrees outside training's range, where warm and cold days come in weeks."""
    random = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(FIRST, FIRST + DAYS), ROWS)
    values = np.repeat(spread * wandering(random, alike), ROWS) + random.normal(0, 1, DAYS * ROWS)
    values[(blocks >= FIRST + DAYS - WINDOW) & (random.random(DAYS * ROWS) < added)] = values.max() + 5
    before, now = split(values, blocks)
    low, high = float(before.values.min()), float(before.values.max())
    inner = np.quantile(before.values, [0.001, 0.01, *np.arange(1, 10) / 10, 0.99, 0.999])
    bins = NumericBins((low - (high - low), low - 1e-9, *map(float, inner), high + 1e-9, high + (high - low)))
    counts = counted(bins, before)
    series = days_alone(counts, [(code,) for code in range(bins.size)], ordered=True)
    likeness = Likeness.of({"x": series} if series is not None else {})
    found = measure_feature(feature(bins, before, counts), counts, counted(bins, now), likeness=likeness).outside
    assert found is not None
    return found.p_value(max(5 * found.expected, 0.005))


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_weeks_that_are_warmer_than_any_before_hardly_ever_fail(alike: float) -> None:
    failed = sum(p_value_of_air(seed, alike) < ALPHA for seed in range(SEEDS // 2))
    assert failed <= ALPHA * SEEDS / 2


def test_values_outside_on_every_day_are_found() -> None:
    assert all(p_value_of_air(seed, 0.0, spread=0.1, added=0.03) < ALPHA for seed in range(10))


def test_values_that_one_day_brings_at_once_did_not_come_by_themselves() -> None:
    """Forty new values of one cold day say as much of how often such come as a few do, not as forty of forty days."""
    random = np.random.default_rng(3)
    usual, days = np.round(random.normal(20, 2, 8000)), np.repeat(np.arange(40), 200)
    apart, at_once = usual.copy(), usual.copy()
    apart[np.arange(40) * 200] = 100.0 + np.arange(40)
    at_once[200:240] = 100.0 + np.arange(40)
    table = pa.table({"apart": apart, "at_once": at_once, "at": (FIRST + days) * DAY})
    found = make_profile(table, features=["apart", "at_once"], label=None, event_time="at").features
    assert found["apart"].new_values >= 40
    assert found["at_once"].new_values <= 4
    assert found["at_once"].new_rate == pytest.approx(found["apart"].new_rate)


def test_what_a_value_weighs_on_a_day_of_few_rows_is_no_weight() -> None:
    values = np.random.default_rng(4).normal(20, 2, 4003)
    days = np.append(np.repeat(np.arange(40), 100), [40, 40, 40])
    found = make_profile(pa.table({"x": values, "at": days * DAY}), features=["x"], label=None, event_time="at")
    assert found.features["x"].points.novel == 0.0
    values[4000:4002] = 17.0
    found = make_profile(pa.table({"x": values, "at": days * DAY}), features=["x"], label=None, event_time="at")
    assert found.features["x"].points.novel == pytest.approx(1 / 3)


def test_a_default_in_a_few_rows_of_a_small_window_is_noted() -> None:
    random = np.random.default_rng(5)
    rows = pd.DataFrame({"spent": np.exp(random.normal(3, 2, 12_300)), "at": (FIRST + np.arange(12_300) // 300) * DAY})
    now = rows[12_000:].copy()
    assert report_on_tables(rows[:12_000], now, Columns(time="at")).outcome is Outcome.PASS
    now.iloc[:9, 0] = 999.0
    found = report_on_tables(rows[:12_000], now, Columns(time="at")).feature("spent")
    assert found.outcome is Outcome.WARN
    assert found.cause is not None
    assert (found.cause["kind"], found.cause["value"]) == ("default value", 999.0)


def test_what_rows_scatter_by_is_known_however_little_is_known_of_days() -> None:
    random = np.random.default_rng(5)
    values, blocks = random.normal(900, 200, DAYS * ROWS), np.repeat(np.arange(FIRST, FIRST + DAYS), ROWS)
    late = blocks >= FIRST + DAYS - WINDOW
    before, now = split(np.where(late & (random.random(len(values)) < 0.03), 999.0, values), blocks)
    bins = NumericBins((800.0, 1000.0))
    known = feature(bins, before, counted(bins, before))

    found = heaviest_excess(known, now, WINDOW, Apart(factor=1.0, longer=1.0, freedom=3.0), MARGIN)

    assert found is not None
    assert found.value == 999.0
    assert found.p_value(found.limit(MARGIN)) < 0.001


def shop(seed: int, days: int = 67, rows: int = 300) -> pd.DataFrame:
    """A shop of thirty articles, of which the first is a third of what is sold; prices go up every four days."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), rows)
    article = np.minimum(random.geometric(0.35, len(day)), 30)
    first = np.exp(np.random.default_rng(1).normal(2.2, 0.8, 31))[article]
    price = np.round(first * 1.002 ** ((day + article) // 4), 2)
    return pd.DataFrame({"price": price, "at": (FIRST + day) * DAY + random.integers(0, DAY, len(day))})


def in_the_last_week(rows: pd.DataFrame, **changed: Floats) -> SkewReport:
    last = (rows["at"] >= (FIRST + 60) * DAY).to_numpy()
    now = rows[last].assign(**{name: values[last] for name, values in changed.items()})
    return report_on_tables(rows[~last], now, Columns(time="at"))


def test_prices_that_change_as_they_always_did_are_neither_unseen_nor_defaults() -> None:
    assert [one.sentence for seed in range(3) for one in in_the_last_week(shop(seed)).findings if _is_no(one)] == []


def test_a_default_among_prices_that_change_is_found() -> None:
    rows = shop(0)
    random = np.random.default_rng(8).random(len(rows))
    for default, share in ((0.0, 0.15), (9.99, 0.6)):
        found = in_the_last_week(rows, price=np.where(random < share, default, rows["price"])).feature("price")
        assert found.outcome is Outcome.FAIL
        assert (found.cause or {}).get("value") == default


def test_one_value_beyond_the_range_is_told_as_that_value_among_prices_that_change() -> None:
    rows = shop(0)
    few = np.random.default_rng(8).random(len(rows)) < 0.03
    found = in_the_last_week(rows, price=np.where(few, 999.0, rows["price"])).feature("price")

    assert found.outcome is Outcome.FAIL
    assert found.sentence.endswith("of the rows hold 999, which training never held (a default?)")


def _is_no(finding: Finding) -> bool:
    return finding.outcome is Outcome.FAIL and finding.check in ("single value", "unseen")


def test_what_values_weigh_for_a_while_is_the_most_over_days_in_a_row() -> None:
    random = np.random.default_rng(6)
    values, days = random.normal(20, 2, 4000), np.repeat(np.arange(40), 100)
    values[1000:1300:2] = 17.0
    values[::20] = 18.0
    found = make_profile(pa.table({"x": values, "at": days * DAY}), features=["x"], label=None, event_time="at")
    phases = found.features["x"].points.phases
    assert phases == pytest.approx((0.44, 0.445, 134 / 400, 134 / 800), abs=0.01)
    assert found.features["x"].points.phase(7) == pytest.approx(phases[2] * 4 / 7)


def test_what_values_weigh_for_a_while_is_found_without_a_look_at_each_value() -> None:
    random = np.random.default_rng(9)
    for blocks, distinct in ((7, 4), (24, 40), (50, 1500), (61, 300)):
        n = random.poisson(600 / distinct, (distinct, blocks))
        for value in range(3):
            start, length = int(random.integers(0, blocks)), int(random.integers(1, 12))
            n[value] = 0
            n[value, start : start + length] = random.integers(1, 60, len(n[value, start : start + length]))
        place, day = np.nonzero(n)
        sample = ValueSample(place.astype(np.float64), day.astype(np.int64), n[place, day])
        assert weigh(sample).phases == pytest.approx(_phases_of_each(n))


def _phases_of_each(n: Integers) -> list[float]:
    """The largest share of each length of 1, 2, 4, ... blocks, by a look at each value and each stretch of blocks that
    begins with it; `n` are counts, [V, B]."""
    blocks, rows, found = n.shape[1], n.sum(axis=0), []
    for length in (2**power for power in range((blocks // 3).bit_length())):
        best = 0.0
        for start in range(blocks):
            covered = rows[start : start + length].sum()
            inside = n[:, start : start + length].sum(axis=1)
            share = (inside - 1) / max(covered, length * rows.mean())
            begins = n[:, start] > 0
            rare = begins & ((n.sum(axis=1) - inside) / max(rows.sum() - covered, 1) <= 0.1 * share)
            best = max(best, float(share[rare & (share >= 0.001)].max(initial=0.0)))
        found.append(best)
    return found


@pytest.mark.parametrize(("alike", "outcome"), [(2, Outcome.PASS), (3, Outcome.FAIL)])
def test_two_days_may_have_one_price_but_not_three(alike: int, outcome: Outcome) -> None:
    random = np.random.default_rng(6)
    price = np.round(75 + random.normal(0, 1, DAYS), 2)
    price[-WINDOW:][:alike] = 75.004
    day = np.repeat(np.arange(DAYS), ROWS)
    rows = pd.DataFrame({"at": (FIRST + day) * DAY + random.integers(0, DAY, len(day)), "price": price[day]})
    late = day >= DAYS - WINDOW
    report = report_on_tables(rows[~late], rows[late], Columns(time="at"))

    assert report.feature("price").outcome is outcome


def p_value_of_frost(seed: int, added: float = 0.0) -> float:
    """Of the heaviest of the degrees, to a tenth, that eight stations read at once in the first week of frost."""
    random = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(FIRST, FIRST + DAYS), ROWS)
    late = blocks >= FIRST + DAYS - WINDOW
    air = (
        np.where(late[::8], 1.0, 12.0)
        + np.repeat(random.normal(0, 1.5, DAYS), ROWS // 8)
        + random.normal(0, 2, len(blocks) // 8)
    )
    values = np.round(np.repeat(air, 8), 1) + 0.0
    before, now = split(np.where(late & (random.random(len(values)) < added), 0.0, values), blocks)
    bins = NumericBins((8.0, 12.0, 16.0))
    known = feature(bins, before, counted(bins, before))
    found = heaviest_excess(known, now, WINDOW, Apart(factor=1.0, longer=1.0, freedom=30.0), MARGIN)
    return 1.0 if found is None else found.p_value(found.limit(MARGIN))


def test_zeros_among_values_as_heavy_are_no_default() -> None:
    assert sum(p_value_of_frost(seed) < ALPHA for seed in range(40)) <= 5
    assert all(p_value_of_frost(seed, 0.06) < ALPHA for seed in range(10))
