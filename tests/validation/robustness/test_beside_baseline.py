"""Calls beside those of the version that serves: a few slow ones are seen and told by their input, noise is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.robustness.examined import LIMITS, examined, held_out
from tests.validation.world import HONEST, before_return

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.robustness.stages.beside_baseline import Pairs, tail_chance

SLEEP = "__import__('time').sleep"
USUAL = f"{SLEEP}(0.001)"
NOW_AND_THEN = f"self.n = getattr(self, 'n', 0) + 1; {SLEEP}(0.015 if self.n % 25 == 0 else 0.001)"
RARE = f"{SLEEP}(0.03 if b'lost' in inputs['depot'].tolist() else 0.001)"
NOISY = f"{SLEEP}(__import__('random').expovariate(500))"


def tail_of(findings: list[Finding]) -> Finding:
    (found,) = (one for one in findings if one.subject == "slowest calls against the baseline")
    return found


def beside(tmp_path: Path, line: str, baseline: str, *, table: pa.Table | None = None, counts: str = "WARN") -> Finding:
    limits = replace(LIMITS, slower_counts=counts)
    found = examined(tmp_path, before_return(line), baseline=before_return(baseline), table=table, limits=limits)
    return tail_of(found)


def test_a_few_calls_that_take_ten_times_as_long_are_seen_without_a_budget(tmp_path: Path) -> None:
    told = beside(tmp_path, NOW_AND_THEN, USUAL)
    assert told.outcome is Outcome.WARN
    words = (
        r"4(\.\d+)? % of its calls take more than \d(\.\d+)? ms, 4 times what is usual; of those of the version that "
        r"serves now [01](\.\d+)? % \(600 calls of each\); up to [\d,]+(\.\d+)? ms, now and then: .*"
    )
    assert re.fullmatch(words, told.sentence), told.sentence


def test_a_row_that_takes_long_is_named_with_its_column(tmp_path: Path) -> None:
    table = held_out()
    depots = ["lost" if row == 333 else depot for row, depot in enumerate(table["depot"].to_pylist())]
    told = beside(tmp_path, RARE, USUAL, table=world.with_column(table, "depot", depots), counts="FAIL")
    assert told.outcome is Outcome.FAIL
    named = re.search(r"; it is slow with (.*) from real data: [23]\d(\.\d)? ms whenever it is asked$", told.sentence)
    assert named is not None, told.sentence
    assert named[1] == '`depot="lost"`'
    assert told.example is not None
    assert told.example["changed"] == {"depot": "lost"}


def test_calls_of_all_lengths_are_no_tail_where_the_version_that_serves_has_them_too(tmp_path: Path) -> None:
    assert beside(tmp_path, NOISY, NOISY, counts="FAIL").outcome is Outcome.PASS


def test_a_budget_is_held_for_rows_that_take_long_too(tmp_path: Path) -> None:
    line = f"{SLEEP}(0.03 if b'west' in inputs['depot'].tolist() else 0)"
    found = examined(tmp_path, before_return(line), limits=replace(LIMITS, p99_ms=20.0))
    (told,) = (one for one in found if one.subject == "p99 of 1 row")
    assert told.outcome is Outcome.FAIL, told.sentence


@pytest.mark.parametrize("longer", [1.0, 1.9], ids=["as long", "nearly twice as long"])
def test_a_busy_machine_makes_no_tail(longer: float) -> None:
    """What holds calls up hits a longer call more often; not one in 500 sound models may be told of it."""
    random = np.random.default_rng(1)
    told = 0
    for _ in range(500):
        lasting = np.tile([longer, 1.0], (600, 1)) * random.lognormal(0, 0.2, (600, 2)) / 1e3
        held_up = random.random((600, 2)) < 0.06 * np.array([longer, 1.0])
        lasting += held_up * random.exponential(0.02, (600, 2))
        told += tail_chance(Pairs(lasting[:, 0], lasting[:, 1], np.zeros(600, np.int64))) < 0.001
    assert told <= 2


def test_a_tail_of_its_own_is_beyond_chance() -> None:
    lasting = np.full((600, 2), 0.001)
    lasting[::25, 0] = 0.01
    assert tail_chance(Pairs(lasting[:, 0], lasting[:, 1], np.zeros(600, np.int64))) < 1e-6


def test_a_version_much_faster_in_the_middle_has_no_tail_where_its_slowest_are_as_usual() -> None:
    lasting = np.full((600, 2), 0.010)
    lasting[:, 0] = 0.001
    lasting[::25, 0] = 0.01
    assert tail_chance(Pairs(lasting[:, 0], lasting[:, 1], np.zeros(600, np.int64))) == 1.0


def test_an_honest_model_is_compared_and_passes(tmp_path: Path) -> None:
    told = tail_of(examined(tmp_path, HONEST, baseline=HONEST, limits=replace(LIMITS, slower_counts="FAIL")))
    assert told.outcome is Outcome.PASS
