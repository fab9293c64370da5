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
    found = rows_beyond(sample_of(now, day), known[(side + 1) // 2], side, limit)

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
    assert min(one.rate(4) for one in wider) > 0.6
    assert min(one.spell(4) for one in wider) > 0.6


def test_too_few_days_or_rows_of_a_day_tell_nothing() -> None:
    values, block = days(8)
    few = block < 109

    assert deviations_of(sample_of(values[few], block[few])) is None
    assert deviations_of(sample_of(values[::5], block[::5])) is None
    assert rows_beyond(sample_of(values[::5], block[::5]), above(sample_of(values, block)), 1, 0.0) is None


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300, 1.7e308])
def test_values_of_any_size_give_finite_numbers_that_json_keeps(size: float) -> None:
    values, block = days(9)
    found = deviations_of(sample_of(np.sign(values) * size, block))

    assert found is not None
    written = json.loads(json.dumps([asdict(one) for one in found], allow_nan=False))
    assert deviations_from_dict(written) == found
    assert deviations_from_dict(None) is None
