"""How far rows of training lie from the middle of their own block, and which of a window lie further."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.deviations import Deviation, deviations_from_dict, deviations_of, rows_beyond
from tidegate_validation.statistics.sample import ValueSample

BLOCKS, ROWS = 40, 50


def sample_of(values: Floats, blocks: Integers) -> ValueSample:
    order = np.argsort(values, kind="stable")
    return ValueSample(values[order], blocks[order], np.ones(len(values), dtype=np.int64))


def days(seed: int, blocks: int = BLOCKS, *, size: float = 0.0) -> tuple[Floats, Integers]:
    """Rows of days whose level moves by ten times their scatter, which itself differs by `size` between days."""
    random = np.random.default_rng(seed)
    block = np.repeat(np.arange(100, 100 + blocks), ROWS)
    level, scatter = random.normal(0, 10, blocks), np.exp(random.normal(0, size, blocks))
    return level[block - 100] + scatter[block - 100] * random.normal(0, 1, len(block)), block


def above(sample: ValueSample) -> Deviation:
    found = deviations_of(sample)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_level_of_days_does_not_move_how_far_rows_are_from_it(seed: int) -> None:
    values, block = days(seed)
    middles = [np.sort(values[block == one])[ROWS // 2 - 1] for one in range(100, 100 + BLOCKS)]
    away = values - np.array(middles)[block - 100]

    found = deviations_of(sample_of(values, block))

    assert found is not None
    assert (found[0].furthest, found[1].furthest) == pytest.approx((-away.min(), away.max()))
    assert found[1].blocks == BLOCKS


@pytest.mark.parametrize("seed", range(4))
def test_days_of_one_scatter_are_believed_less_than_days_that_differ(seed: int) -> None:
    assert above(sample_of(*days(seed))).kept < 0.5
    assert above(sample_of(*days(seed, size=1.0))).kept > 0.9


@pytest.mark.parametrize("side", [-1, 1])
def test_rows_apart_are_those_that_were_moved_and_not_those_of_a_day_whose_level_is_beyond_training(side: int) -> None:
    values, block = days(5)
    known = deviations_of(sample_of(values, block))
    limit = side * float((side * values).max())
    now, day = days(6, 4)
    for one, middle in zip(range(100, 104), (limit + side * 3, 0.0, 0.0, 0.0), strict=True):
        now[day == one] += middle - np.median(now[day == one])
    moved = np.flatnonzero(day > 101)[::25]
    now[moved] = limit + side

    assert known is not None
    found = rows_beyond(sample_of(now, day), known[(side + 1) // 2], side, limit, 4)

    assert found is not None
    beyond, apart = found
    assert beyond[0] > ROWS / 2
    assert beyond[1:].tolist() == [0, 2, 2]
    assert apart.tolist() == [0, 0, 2, 2]


def test_days_that_go_on_and_on_are_records_and_of_others_about_one_in_as_many_as_were_before() -> None:
    steady, wider = [], []
    for seed in range(20):
        values, block = days(seed)
        level = np.repeat([np.median(values[block == one]) for one in range(100, 100 + BLOCKS)], ROWS)
        runs_on = np.where(np.arange(len(block)) % ROWS == 0, level + (block - 90) / 2, values)
        steady.append(above(sample_of(values, block)).rate(4))
        wider.append(above(sample_of(runs_on, block)))

    assert np.mean(steady) == pytest.approx(1.5 / BLOCKS, abs=0.03)
    assert min(one.rate(4) for one in wider) > 0.4
    assert np.mean([one.rate(4) for one in wider]) > 0.8
    assert min(one.spell(4) for one in wider) > 0.6


def test_rows_that_move_away_from_their_days_may_go_on_so() -> None:
    for seed in range(4):
        values, block = days(seed, BLOCKS + 8)
        first = np.arange(len(block)) % ROWS == 0
        grows = np.where(first, 200 + 40 * (block - 100), 0) + values
        before = block < 100 + BLOCKS
        known = above(sample_of(grows[before], block[before]))
        limit = float(grows[before].max())
        now = sample_of(grows[~before], block[~before])
        moved = sample_of(np.where(first, 4000, grows)[~before], block[~before])

        assert known.growth[0] == pytest.approx(40, rel=0.25)
        apart = [rows_beyond(one, known, 1, limit, 8) for one in (now, moved)]
        on, beyond = (float(one[1].sum()) for one in apart if one is not None)
        assert (on <= 1, beyond) == (True, 8)


def test_a_few_far_rows_of_a_long_tail_do_not_hide_themselves_by_widening_their_day() -> None:
    found = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        block = np.repeat(np.arange(100, 108 + BLOCKS), 2 * ROWS)
        values = np.exp(random.normal(0, 1, len(block)) + random.normal(0, 0.3, 108 + BLOCKS)[block])
        before = block < 100 + BLOCKS
        limit = float(values[before].max())
        moved = random.random(len(block)) < 0.06
        now = np.where(moved, limit * random.uniform(1.1, 1.5, len(block)), values)[~before]
        apart = rows_beyond(
            sample_of(now, block[~before]), above(sample_of(values[before], block[before])), 1, limit, 8
        )

        assert apart is not None
        found.append(float((apart[1] > 0).mean()))
    assert np.mean(found) > 0.8


@pytest.mark.parametrize("seed", range(4))
def test_where_days_differ_by_factors_how_many_times_smaller_a_value_is_tells_it_from_its_day(seed: int) -> None:
    random = np.random.default_rng(seed)
    block = np.repeat(np.arange(100, 108 + BLOCKS), ROWS)
    values = np.exp(random.normal(3, 1, 8 + BLOCKS))[block - 100] * random.uniform(0.5, 1.5, len(block))
    before, first = block < 100 + BLOCKS, np.arange(len(block)) % ROWS == 0
    found = deviations_of(sample_of(values[before], block[before]))
    limit = float(values[before].min())

    assert found is not None
    assert (found[0].smallest, found[1].smallest) == (limit, None)
    for value, whole in ((-limit, True), (0.0, False), (limit / 3, False)):
        now = sample_of(np.where(first, value, values)[~before], block[~before])
        apart = rows_beyond(now, found[0], -1, limit, 8)
        assert apart is not None
        assert (apart[1].sum() == 8) if whole else (apart[1].sum() >= 6)
    cold = days(seed)[0] + 45  # What lies near nought, as degrees may, does not differ by factors.
    steady = deviations_of(sample_of(cold, days(seed)[1]))
    assert steady is not None
    assert (cold.min() > 0, steady[0].smallest) == (True, None)


@pytest.mark.parametrize("lowest", [0.0, -3.0])
def test_the_lowest_value_may_be_one_of_a_day_of_few_rows(lowest: float) -> None:
    random = np.random.default_rng(3)
    block = np.repeat(np.arange(100, 108 + BLOCKS), ROWS)
    values = np.exp(random.normal(3, 1, 8 + BLOCKS))[block - 100] * random.uniform(0.5, 1.5, len(block))
    before, first = block < 100 + BLOCKS, np.arange(len(block)) % ROWS == 0
    short = np.append(values[before], lowest), np.append(block[before], 99)
    now = sample_of(np.where(first, -400.0, values)[~before], block[~before])

    for training in (short, (values[before], block[before])):  # A sample of very many rows may lack the lowest one.
        found = deviations_of(sample_of(*training))
        assert found is not None
        apart = rows_beyond(now, found[0], -1, lowest, 8)
        assert apart is not None
        assert apart[0].sum() == (0 if found[0].smallest and lowest else 8)
        assert apart[0].tolist() == apart[1].tolist()


def test_too_few_days_or_rows_of_a_day_tell_nothing() -> None:
    values, block = days(8)
    few = block < 109

    assert deviations_of(sample_of(values[few], block[few])) is None
    assert deviations_of(sample_of(values[::5], block[::5])) is None
    assert rows_beyond(sample_of(values[::5], block[::5]), above(sample_of(values, block)), 1, 0.0, 4) is None


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300, 1.7e308])
def test_values_of_any_size_give_finite_numbers_that_json_keeps(size: float) -> None:
    values, block = days(9)
    found = deviations_of(sample_of(np.sign(values) * size, block))

    assert found is not None
    written = json.loads(json.dumps([asdict(one) for one in found], allow_nan=False))
    assert deviations_from_dict(written) == found
    assert deviations_from_dict(None) is None
