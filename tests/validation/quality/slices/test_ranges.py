"""Ranges of numbers of few values, such as hours, of which no single one has rows enough to be judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.validation.quality.slices.test_slices import LAX, World, told

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.partitions import ranges_of
from tidegate_validation.statistics.arrays import Floats, Integers

ROWS = 3000


def world_by_hour(seed: int) -> tuple[World, Integers]:
    world = World(seed, ROWS)
    hours = np.random.default_rng(seed + 100).integers(0, 24, ROWS)
    world.table = world.table.append_column("hour", [hours])
    return world, hours


def judged(world: World, odds: Floats, rule: QualityRule) -> list[Finding]:
    held = HeldOut(world.table, world.evaluation, "40 random buckets")
    mine, theirs = (1 / (1 + np.exp(-one)) for one in (odds, world.other))
    return judge_scores(ScoredExamples(held, mine, theirs, ("shop", "hour")), rule)


@pytest.mark.parametrize("named_by_policy", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_fault_of_the_night_is_named_by_its_hours(seed: int, named_by_policy: bool) -> None:
    world, hours = world_by_hour(seed)
    rule = QualityRule(margin=0.5, loss_margin=5.0, slice_columns=("hour",)) if named_by_policy else LAX
    first, outcome = told(judged(world, world.spoilt(hours < 5), rule))[0]
    assert (first, outcome) in [(f"hour < {hour}", Outcome.FAIL) for hour in (5, 6, 7)]


@pytest.mark.parametrize("seed", range(6))
def test_equal_models_are_refused_for_no_hours(seed: int) -> None:
    world, _ = world_by_hour(seed)
    assert [one for one in told(judged(world, world.odds, LAX)) if one[1] is Outcome.FAIL] == []


def test_only_numbers_of_few_values_with_few_rows_each_are_cut_into_ranges() -> None:
    world, hours = world_by_hour(0)
    gaps = np.where(np.arange(ROWS) % 10 == 0, np.nan, hours.astype(np.float64))
    more = {"gaps": gaps, "flag": hours % 2, "text": hours.astype(str), "mostly 1": np.where(hours < 20, 1, hours)}
    table = pa.table({**{name: world.table[name] for name in ("age", "hour", "day")}, **more})
    found = ranges_of(table, world.evaluation, table.column_names, 300)
    assert [one.column for one in found] == ["hour", "gaps"]
    assert found[0].rows().sum() == ROWS
    assert dict(zip(found[1].names, found[1].rows(), strict=True))["gaps is missing"] == ROWS // 10
    assert ranges_of(table, world.evaluation, ["hour"], 50) == []
