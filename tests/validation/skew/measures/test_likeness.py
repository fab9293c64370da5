"""Days that hang together, and days with storms: neither may be taken for a shift, nor hide one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tidegate_validation.skew.measures.distance import Chance, block_distance, days_alone
from tidegate_validation.skew.measures.likeness import Likeness
from tidegate_validation.statistics import FeatureCounts
from tidegate_validation.statistics.arrays import Floats

BINS = [(code,) for code in range(10)]
FIRST = 16_000
DAYS = 90
WINDOW = 7


def wandering(
    seed: int, alike: float, shift: float = 0.0, rows: int = 200, bins: int = 10
) -> tuple[FeatureCounts, FeatureCounts]:
    """Ninety days and the seven after them, whose level wanders by 0.3; the last seven moved by `shift`."""
    random = np.random.default_rng(seed)
    level = np.empty(DAYS + WINDOW)
    level[0] = random.normal()
    for day in range(1, len(level)):
        level[day] = alike * level[day - 1] + (1 - alike**2) ** 0.5 * random.normal()
    values = 0.3 * level[:, None] + random.normal(0, 1, (len(level), rows))
    values[DAYS:] += shift
    codes = np.searchsorted(stats.norm.ppf(np.linspace(0, 1, bins + 1)[1:-1]), values)
    n = np.stack([np.bincount(row, minlength=bins) for row in codes])
    blocks = FIRST + np.arange(len(level))
    sides = (slice(None, DAYS), slice(DAYS, None))
    before, now = (FeatureCounts(blocks[side], np.arange(bins), n[side]) for side in sides)
    return before, now


def prior_of(references: Iterable[FeatureCounts]) -> Floats | None:
    """What several features say together."""
    found = [days_alone(one, BINS, ordered=True) for one in references]
    return Likeness.of({str(place): one for place, one in enumerate(found) if one is not None}).shared


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_windows_of_days_that_hang_together_are_hardly_ever_called_shifted(alike: float) -> None:
    p_values = [block_distance(*wandering(seed, alike), BINS, ordered=True).p_value() for seed in range(80)]
    assert np.mean(np.array(p_values) < 0.02) <= 0.05


def test_the_noise_of_rows_does_not_hide_that_days_hang_together() -> None:
    """Middle bins hold hardly anything but that noise; the level, in which days differ, keeps what the day before had.
    Bins without an order are told by the distribution alone."""
    bins = [(code,) for code in range(30)]
    windows = [wandering(seed, 0.9, rows=100, bins=30) for seed in range(100, 180)]
    assert sum(block_distance(*one, bins).p_value(0.1) < 0.05 for one in windows) <= 3


@pytest.mark.parametrize(("alike", "least"), [(0.0, 0.8), (0.9, 0.6)])
def test_a_shift_is_found_also_where_days_hang_together(alike: float, least: float) -> None:
    """Where they hang together much, the days before the window say what was to be expected in it."""
    p_values = [block_distance(*wandering(seed, alike, 0.5), BINS, ordered=True).p_value() for seed in range(40)]
    assert np.mean(np.array(p_values) < 0.02) >= least


def test_several_features_know_better_than_one_how_days_hang_together() -> None:
    """The detectable size shrinks towards what the truth allows, or grows, as the other features say."""
    together = [prior_of(wandering(seed, alike)[0] for seed in range(8)) for alike in (0.0, 0.9)]
    before, now = wandering(100, 0.5)
    calm, tied = (block_distance(before, now, BINS, prior=prior).noise for prior in together)
    alone = block_distance(before, now, BINS).noise
    assert calm < alone < tied


def test_chunks_of_rows_are_no_days_that_two_tables_share() -> None:
    before, now = wandering(3, 0.9)
    chunks = FeatureCounts(np.arange(DAYS), before.codes, before.n)
    same, other = (FeatureCounts(np.arange(first, first + WINDOW), now.codes, now.n) for first in (0, DAYS))
    found = [block_distance(chunks, one, BINS, ordered=True).p_value() for one in (same, other)]
    assert found[0] == pytest.approx(found[1], abs=0.02)


def test_a_window_with_a_storm_is_held_against_windows_that_might_have_held_it() -> None:
    """One day in 150 is a storm in which half is missing: one window of seven days in twenty holds it, by chance alone.
    The same share missing on each of the seven days is no chance."""
    random = np.random.default_rng(5)
    missing = random.binomial(800, random.beta(2, 100, 150))
    rest, chosen = np.arange(143), np.arange(143, 150)
    storm = np.where(chosen == 146, 30, 1)
    reference = FeatureCounts(FIRST + rest, np.array([0, 1]), np.column_stack([missing[rest], 800 - missing[rest]]))
    p_values = []
    for thin in (storm, np.full(7, storm.sum() // 7)):
        window = FeatureCounts(FIRST + chosen, np.array([0, 1]), np.column_stack([thin, 60 - thin]))
        p_values.append(block_distance(reference, window, [(0,), (1,)]).p_value())
    assert p_values[0] > 0.01
    assert p_values[1] < 0.005


def test_a_p_value_is_never_more_than_one() -> None:
    """Weights of models add up to one but for rounding, and whoever corrects p-values takes no more than one."""
    halves = tuple(Chance(weight, 1.0, 1.0, 3.0, 50.0) for weight in (0.7, 0.3000000000000003))
    assert sum(one.weight for one in halves) > 1.0
    before, _ = wandering(1, 0.5)
    assert replace(block_distance(before, before, BINS), delta=0.0, chances=halves).p_value() == 1.0


def test_a_value_of_each_day_a_little_beyond_all_before_is_nothing_rare() -> None:
    found = [block_distance(*price_of_the_day(seed), BINS, ordered=True).p_value(0.1) for seed in range(60)]

    assert np.mean(np.array(found) < 0.001) <= 0.02
    assert block_distance(*price_of_the_day(1, jump=9.0), BINS, ordered=True).p_value(0.1) < 0.05


def price_of_the_day(seed: int, jump: float = 0.0) -> tuple[FeatureCounts, FeatureCounts]:
    """Rows that hold one price each day, which wanders, and in the last seven days has jumped; bins with an end below
    and one above all prices before."""
    random = np.random.default_rng(seed)
    price = np.cumsum(random.normal(0, 1, DAYS + WINDOW)) * 0.2
    price[DAYS:] += jump
    inner = np.linspace(price[:DAYS].min(), np.nextafter(price[:DAYS].max(), np.inf), len(BINS) - 1)
    n = 100 * np.eye(len(BINS), dtype=np.int64)[np.searchsorted(inner, price, side="right")]
    blocks = FIRST + np.arange(len(price))
    sides = (slice(None, DAYS), slice(DAYS, None))
    before, now = (FeatureCounts(blocks[side], np.arange(len(BINS)), n[side]) for side in sides)
    return before, now
