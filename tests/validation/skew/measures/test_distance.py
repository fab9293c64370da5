"""How often the skew tests cry wolf and how much they see: on days drawn from real flights, and on made-up ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.validation.skew import flights

from tidegate_serving.admission import Outcome
from tidegate_validation.skew.measures.distance import block_distance
from tidegate_validation.skew.measures.numbers import measure_feature
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule, judge
from tidegate_validation.statistics import FeatureCounts, Profile, make_profile

RULE = SkewRule()


BINS = [(code,) for code in range(12)]


@functools.cache
def autumn() -> Profile:
    return make_profile(flights.months(9, 11), features=flights.FEATURES, label=None, event_time=flights.TIME)


def picked(counts: FeatureCounts, blocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FeatureCounts:
    keep = np.isin(counts.blocks, blocks)
    return FeatureCounts(counts.blocks[keep], counts.codes, counts.n[keep])


def judged(profile: Profile, window: list[int]) -> list[Judgement]:
    """A report on days of the profile itself, held against its other days."""
    numbers = []
    for feature in profile.inputs:
        counts = profile.counts[feature.name]
        rest = np.setdiff1d(counts.blocks, window)
        numbers.append(measure_feature(feature, picked(counts, rest), picked(counts, np.array(window))))
    return judge(numbers, RULE)


@pytest.mark.parametrize("length", [1, 7])
def test_days_of_the_same_season_hardly_ever_fail(length: int) -> None:
    profile = autumn()
    days = profile.counts["distance"].blocks[1:-1]
    random = np.random.default_rng(length)
    reports = [judged(profile, random.choice(days, length, replace=False).tolist()) for _ in range(50)]
    failing = sum(any(one.outcome is Outcome.FAIL for one in report) for report in reports)
    warning = sum(any(one.outcome is Outcome.WARN for one in report) for report in reports)
    assert failing <= 5, "one report in twenty may fail by chance, and five in fifty stays within that by luck"
    assert warning <= 12


def test_weeks_that_follow_each_other_hardly_ever_fail() -> None:
    """Consecutive days resemble each other, so this is harder than days drawn at random."""
    profile = autumn()
    days = profile.counts["distance"].blocks[1:-1].tolist()
    reports = [judged(profile, days[start : start + 7]) for start in range(0, len(days) - 7, 3)]
    failing = sum(any(one.outcome is Outcome.FAIL for one in report) for report in reports)
    assert failing <= 0.1 * len(reports)


def overdispersed(days: int, rows: int, seed: int, spread: float, shift: float = 0.0) -> FeatureCounts:
    """Counts of 12 bins per day whose shares wander from day to day; `shift` moves mass from first to last bin."""
    random = np.random.default_rng(seed)
    base = np.linspace(1, 2, 12)
    shares = base * np.exp(random.normal(0, spread, (days, 12)))
    shares /= shares.sum(axis=1, keepdims=True)
    moved = np.minimum(shift, shares[:, 0])
    shares[:, 0] -= moved
    shares[:, -1] += moved
    n = np.stack([random.multinomial(rows, row / row.sum()) for row in shares])
    return FeatureCounts(np.arange(days), np.arange(12), n)


@pytest.mark.parametrize(("rows", "length"), [(200, 1), (2000, 1), (2000, 7)])
def test_without_a_shift_rejections_stay_at_the_nominal_rate(rows: int, length: int) -> None:
    p_zero, p_margin = [], []
    for seed in range(150):
        reference = overdispersed(60, rows, 2 * seed, spread=0.25)
        found = block_distance(reference, overdispersed(length, rows, 2 * seed + 1, spread=0.25), BINS)
        p_zero.append(found.p_value())
        p_margin.append(found.p_value(RULE.margin))
    assert np.mean(np.array(p_zero) < 0.05) <= 0.10
    assert np.mean(np.array(p_margin) < 0.05) <= 0.03


def test_rows_taken_as_independent_would_cry_wolf_where_days_differ() -> None:
    """The reason for the block-robust test: the same windows, with too few blocks to learn from."""
    loud, quiet = 0, 0
    for seed in range(40):
        window = overdispersed(1, 2000, 1000 + seed, spread=0.25)
        loud += block_distance(overdispersed(10, 2000, seed, spread=0.25), window, BINS).p_value() < 0.05
        quiet += block_distance(overdispersed(60, 2000, seed, spread=0.25), window, BINS).p_value() < 0.05
    assert loud > 30
    assert quiet < 6


def test_a_shift_of_the_detectable_size_is_found_about_as_often_as_promised() -> None:
    reference = overdispersed(90, 1500, 5, spread=0.1)
    size = block_distance(reference, overdispersed(3, 1500, 6, spread=0.1), BINS).detectable(RULE.margin, 0.05)
    lighter = 0.0
    for shift in np.linspace(0.01, 0.08, 30):
        exact = overdispersed(1, 10_000_000, 7, spread=0.0, shift=shift)
        lighter = shift
        if block_distance(overdispersed(30, 10_000_000, 8, spread=0.0), exact, BINS).delta >= size:
            break
    found = [
        block_distance(reference, overdispersed(3, 1500, 100 + seed, spread=0.1, shift=lighter), BINS)
        for seed in range(60)
    ]
    assert 0.6 <= np.mean([one.p_value(RULE.margin) < 0.05 for one in found]) <= 0.97


def test_bounds_and_p_values_agree() -> None:
    found = block_distance(overdispersed(60, 2000, 1, 0.1), overdispersed(5, 2000, 2, 0.1, shift=0.05), BINS)
    low, high = found.lower(0.05), found.upper(0.05)
    assert RULE.margin < low < found.delta < high
    assert found.p_value(low) == pytest.approx(0.05, abs=2e-3)
    assert found.p_value(high) == pytest.approx(0.95, abs=2e-3)
    assert found.p_value(0.0) < found.p_value(0.05) < found.p_value(0.2)


def test_a_window_no_further_out_than_trainings_own_weeks_is_not_called_shifted() -> None:
    """A reference whose second half differs from its first: by the formula for independent days anything is a shift."""
    first, second = overdispersed(30, 3000, 1, 0.02), overdispersed(30, 3000, 2, 0.02, shift=0.05)
    reference = FeatureCounts(np.arange(60), np.arange(12), np.concatenate([first.n, second.n]))
    window = overdispersed(7, 3000, 3, 0.02, shift=0.05)
    found = block_distance(reference, window, BINS)
    assert found.runs.further > 0
    assert found.p_value() >= found.runs.p_value > 0
    far = block_distance(reference, overdispersed(7, 3000, 4, 0.02, shift=0.07), BINS)
    assert far.delta > found.delta


def test_with_few_training_days_a_shift_is_a_warning_only() -> None:
    training = flights.months(3, 3)
    days = np.unique(flights.days_of(training))
    table = training.filter(np.isin(flights.days_of(training), days[1:12]))
    profile = make_profile(table, features=["dest"], label=None, event_time=flights.TIME)
    feature, counts = profile.features["dest"], profile.counts["dest"]
    shifted = FeatureCounts(counts.blocks[:2] + 50, counts.codes, counts.n[:2][:, ::-1].copy())
    (first, *_) = judge([measure_feature(feature, counts, shifted)], RULE)
    assert first.test is Aspect.DISTRIBUTION
    assert first.outcome is Outcome.WARN
    assert first.p_margin < 1e-6


def test_a_handful_of_rows_says_nothing() -> None:
    found = block_distance(overdispersed(60, 2000, 1, 0.1), overdispersed(1, 6, 2, 0.1), BINS)
    assert found.detectable(RULE.margin, 0.05) > RULE.detectable


def harbours(days: int, rows: int, seed: int, swapped: bool = False) -> FeatureCounts:
    """Counts per day of 100 categories, the first of which are frequent; `swapped` exchanges the first two with the
    third and fourth tenth."""
    random = np.random.default_rng(seed)
    shares = 1.0 / np.arange(3, 103)
    if swapped:
        shares[[0, 1, 30, 40]] = shares[[30, 40, 0, 1]]
    n = np.stack([random.multinomial(rows, shares / shares.sum()) for _ in range(days)])
    return FeatureCounts(np.arange(days), np.arange(100), n)


def test_few_rows_of_many_categories_still_tell_the_frequent_ones_apart() -> None:
    bins = [(code,) for code in range(100)]
    reference = harbours(140, 60, 1)
    telling = [block_distance(reference, harbours(7, 60, seed), bins, telling=RULE.detectable) for seed in range(2, 42)]
    assert all(one.rows_enough(RULE.detectable) for one in telling)
    assert sum(one.p_value() < 0.05 for one in telling) <= 5
    assert not block_distance(reference, harbours(7, 60, 2), bins).rows_enough(RULE.detectable)
    exchanged = block_distance(reference, harbours(7, 60, 3, swapped=True), bins, telling=RULE.detectable)
    assert exchanged.p_value(RULE.margin) < 1e-3
    ordered = block_distance(reference, harbours(7, 60, 2), bins, ordered=True, telling=RULE.detectable)
    assert ordered.rows_alone == block_distance(reference, harbours(7, 60, 2), bins, ordered=True).rows_alone
