"""Simulates canaries and counts wrong decisions, and how many pairs a decision took beside a test of fixed size.

Each scenario is 1,000 sequences of shadowed pairs, looked at after every 20 of them by the function that the step uses.
The test of fixed size is the paired z-test at the same margin and error rate, with the number of pairs that gives it
the power which the sequences showed (at most 0.999, beyond which 1,000 sequences cannot tell).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from tests.bench.rows import Row

from tidegate_serving.admission import Outcome
from tidegate_validation.canary.judgement import decide
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule

SEQUENCES = 1000
LOOK = 20
MOST_POWER = 0.999


@dataclass(frozen=True, slots=True)
class Scenario:
    """How often only the canary or only the serving version is at fault, what is too much, and how long it runs."""

    name: str
    worse: float
    better: float
    margin: float
    pairs: int

    @property
    def excess(self) -> float:
        """By how much the canary is truly worse."""
        return self.worse - self.better

    @property
    def good(self) -> bool:
        """Whether it is better than the margin, which counts as too bad itself."""
        return self.excess < self.margin - 1e-9


SCENARIOS = (
    Scenario("equal, 1 % of faults each, margin 2 %", 0.01, 0.01, 0.02, 4000),
    Scenario("equal, 2 % of faults each, margin 5 %", 0.02, 0.02, 0.05, 2000),
    Scenario("equal, 10 % of faults each, margin 5 %", 0.10, 0.10, 0.05, 4000),
    Scenario("equal, 0.2 % of faults each, margin 1 %", 0.002, 0.002, 0.01, 4000),
    Scenario("equal, never at fault, margin 1 %", 0.0, 0.0, 0.01, 1000),
    Scenario("worse by the margin of 2 %, 1 % in common", 0.03, 0.01, 0.02, 2000),
    Scenario("worse by the margin of 5 %, 10 % in common", 0.15, 0.10, 0.05, 2000),
    Scenario("worse by twice the margin of 5 %", 0.10, 0.0, 0.05, 3000),
    Scenario("worse by 7 %, margin 2 %", 0.08, 0.01, 0.02, 3000),
)


def measure() -> list[Row]:
    """Three rows a scenario: promotions or refusals that are wrong, and pairs beside those of fixed size."""
    rows: list[Row] = []
    for number, scenario in enumerate(SCENARIOS):
        rows += _rows(scenario, _decide_all(scenario, np.random.default_rng(number)))
    return rows


@dataclass(frozen=True, slots=True)
class _Decided:
    outcome: Outcome
    pairs: int


def _decide_all(scenario: Scenario, random: np.random.Generator) -> list[_Decided]:
    rule = CanaryRule(max_error_share=scenario.margin, pairs=1)
    return [_decide(scenario, rule, random.random(scenario.pairs)) for _ in range(SEQUENCES)]


def _decide(scenario: Scenario, rule: CanaryRule, draws: npt.NDArray[np.float64]) -> _Decided:
    worse, better = np.cumsum(draws < scenario.worse), np.cumsum(draws > 1.0 - scenario.better)
    for compared in range(LOOK, scenario.pairs + 1, LOOK):
        errors, faults = int(worse[compared - 1]), int(better[compared - 1])
        numbers = CanaryNumbers(shadowed=compared, compared=compared, errors=errors, primary_faults=faults)
        outcome, _ = decide(numbers, rule)
        if outcome is not Outcome.INCONCLUSIVE:
            return _Decided(outcome, compared)
    return _Decided(Outcome.INCONCLUSIVE, scenario.pairs)


def _rows(scenario: Scenario, decided: Sequence[_Decided]) -> list[Row]:
    promoted = sum(one.outcome is Outcome.PASS for one in decided) / len(decided)
    refused = sum(one.outcome is Outcome.FAIL for one in decided) / len(decided)
    wrong, kind = (refused, "refused") if scenario.good else (promoted, "promoted")
    rows = [Row(f"canary {scenario.name}: wrongly {kind}", wrong, "share", "at most 0.05", wrong <= 0.05)]
    right = promoted if scenario.good else refused
    if abs(scenario.excess - scenario.margin) > 1e-9:
        median = float(np.median([one.pairs for one in decided]))
        rows.append(Row(f"canary {scenario.name}: decided rightly", right, "share", "reported", None))
        rows.append(_pairs_row(scenario, median, min(right, MOST_POWER)))
    return rows


def _pairs_row(scenario: Scenario, median: float, power: float) -> Row:
    """Where nothing ever goes wrong no test can need less than the fixed one, which knows that beforehand."""
    measure = f"canary {scenario.name}: median pairs"
    if not scenario.worse and not scenario.better:
        fixed = int(np.ceil(np.log(0.05) / np.log(1.0 - scenario.margin)))
        return Row(measure, median, "pairs", f"reported beside {fixed} of fixed size", None)
    fixed = fixed_pairs(scenario, power)
    return Row(measure, median, "pairs", f"below {fixed} of fixed size", median < fixed)


def fixed_pairs(scenario: Scenario, power: float) -> int:
    """Pairs that a paired z-test of fixed size needs to tell this canary from one at the margin with this power."""
    variance = scenario.worse + scenario.better - scenario.excess**2
    at_margin = max(scenario.better + scenario.margin, scenario.worse) + scenario.better - scenario.margin**2
    null = at_margin if scenario.good else variance
    z_error, z_power = stats.norm.ppf(1.0 - 0.05), stats.norm.ppf(power)
    needed = (z_error * np.sqrt(min(null, variance)) + z_power * np.sqrt(variance)) / (
        scenario.excess - scenario.margin
    )
    return int(np.ceil(float(needed) ** 2))
