"""Simulates canaries that get growing shares of traffic: wrong decisions, and clients that met a bad version.

Each scenario is 1,000 sequences of up to 2,000,000 requests, looked at every 20,000 by the function that the step uses;
those that are far worse, every 1,000, since neither split may then cost much of a look.
Beside each stands a fixed split in halves under the same test. A sequence that is not decided in the end is refused, as
the step does, and counts as that. Clients on the bad version are counted until the canary ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, log

import numpy as np
from tests.bench.rows import Row

from tidegate_serving.admission import Outcome
from tidegate_validation.canary.growth import Step, decide_growth
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

SEQUENCES = 1000
REQUESTS = 2_000_000
SECONDS = 10.0
RULE = CanaryRule(mode=CanaryMode.TRAFFIC, slowdown_grace_us=0.0, labels="labels.parquet")
HALVES = CanaryRule(mode=CanaryMode.TRAFFIC, slowdown_grace_us=0.0, labels="labels.parquet", shares=(0.5,))
LABELLED = 0.5
ERRORS = 0.01
WRONG = 0.1
SIGMA = 0.5
"""Of the latencies' logarithms: the 99th percentile is 3.2 times the median."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """By how much the canary is worse: in errors, in latency, and in answers that are wrong."""

    name: str
    errors: float = 0.0
    slowdown: float = 0.0
    wrong: float = 0.0
    promised: bool = True
    look: int = 20_000

    @property
    def good(self) -> bool:
        """Whether it is as good as the other."""
        return not (self.errors or self.slowdown or self.wrong)

    @property
    def slow(self) -> float:
        """The chance that its answer takes longer than the other's by more than the margin."""
        gap = log((1.0 + self.slowdown) / (1.0 + RULE.max_slowdown))
        return 0.5 + erf(gap / (2.0 * SIGMA)) / 2.0


SCENARIOS = (
    Scenario("equal"),
    Scenario("1 % more errors", errors=RULE.max_error_share),
    Scenario("20 % slower", slowdown=RULE.max_slowdown),
    Scenario("worse quality by the margin", wrong=RULE.max_quality_loss),
    Scenario("3 % more errors", errors=0.03, promised=False, look=1000),
    Scenario("50 % slower", slowdown=0.5, promised=False, look=1000),
)


@dataclass(frozen=True, slots=True)
class _Ended:
    outcome: Outcome
    requests: int
    clients: int


def measure() -> list[Row]:
    """Rows for each scenario: wrong decisions, and clients beside those of the fixed split."""
    rows: list[Row] = []
    for number, scenario in enumerate(SCENARIOS):
        growing = [_run(scenario, RULE, np.random.default_rng((number, one))) for one in range(SEQUENCES)]
        if scenario.good:
            rows += _good_rows(scenario, growing)
        else:
            halves = [_run(scenario, HALVES, np.random.default_rng((number, one, 2))) for one in range(SEQUENCES)]
            rows += _bad_rows(scenario, growing, halves)
    return rows


def _run(scenario: Scenario, rule: CanaryRule, random: np.random.Generator) -> _Ended:
    numbers, alone, number, seconds, answered, clients = CanaryNumbers(), CanaryNumbers(), 0, 0.0, 0, 0
    serving, looks = 0, REQUESTS // scenario.look
    for look in range(1, looks + 1):
        share = rule.shares[number]
        got = int(random.binomial(scenario.look, share))
        clients, answered, seconds, serving = (
            clients + got,
            answered + got,
            seconds + SECONDS,
            serving + scenario.look - got,
        )
        if share < 1.0:  # the answer just before is the other version's with chance 1 - share
            numbers = _more(numbers, int(random.binomial(got, 1.0 - share)), got, scenario, random)
        else:
            alone = _more(alone, min(got, serving - alone.compared), got, scenario, random)
        grown = decide_growth(numbers, Step(number, seconds, answered, alone if share >= 1.0 else None), rule)
        if grown.outcome is not Outcome.INCONCLUSIVE:
            return _Ended(grown.outcome, look * scenario.look, clients)
        if grown.number != number:
            number, seconds, answered = grown.number, 0.0, 0
    return _Ended(Outcome.INCONCLUSIVE, REQUESTS, clients)


def _more(
    before: CanaryNumbers, pairs: int, got: int, scenario: Scenario, random: np.random.Generator
) -> CanaryNumbers:
    worse, better = _alone_at_fault(pairs, ERRORS + scenario.errors, ERRORS, random)
    labelled = int(random.binomial(pairs, LABELLED))
    wrong, primary_wrong = _alone_at_fault(labelled, WRONG + scenario.wrong, WRONG, random)
    return CanaryNumbers(
        compared=before.compared + pairs,
        errors=before.errors + worse,
        primary_faults=before.primary_faults + better,
        slow=before.slow + int(random.binomial(pairs, scenario.slow)),
        labelled=before.labelled + labelled,
        wrong=before.wrong + wrong,
        primary_wrong=before.primary_wrong + primary_wrong,
        answered=before.answered + got,
    )


def _alone_at_fault(pairs: int, canary: float, serving: float, random: np.random.Generator) -> tuple[int, int]:
    chances = (canary * (1.0 - serving), serving * (1.0 - canary))
    worse, better, _ = random.multinomial(pairs, np.array((*chances, 1.0 - sum(chances))))
    return int(worse), int(better)


def _good_rows(scenario: Scenario, growing: Sequence[_Ended]) -> list[Row]:
    refused = _share(growing, Outcome.FAIL)
    undecided = _share(growing, Outcome.INCONCLUSIVE)
    requests = float(np.median([float(one.requests) for one in growing if one.outcome is Outcome.PASS] or [np.inf]))
    name, wrong = f"progressive {scenario.name}", refused + undecided
    return [
        Row(f"{name}: wrongly refused, or not decided", wrong, "share", "at most 0.05", wrong <= 0.05),
        Row(f"{name}: of these refused by the evidence", refused, "share", "reported", None),
        Row(f"{name}: median requests to the promotion", requests, "requests", "reported", None),
    ]


def _bad_rows(scenario: Scenario, growing: Sequence[_Ended], halves: Sequence[_Ended]) -> list[Row]:
    promoted = _share(growing, Outcome.PASS)
    clients, fixed = (float(np.mean([one.clients for one in ended])) for ended in (growing, halves))
    name = f"progressive {scenario.name}"
    target = f"at most 0.25 of {fixed:,.0f} at a fixed 50 %" if scenario.promised else f"reported beside {fixed:,.0f}"
    return [
        Row(f"{name}: wrongly promoted", promoted, "share", "at most 0.05", promoted <= 0.05),
        Row(f"{name}: refused by the evidence", _share(growing, Outcome.FAIL), "share", "reported", None),
        Row(
            f"{name}: clients on it",
            clients / fixed,
            "ratio",
            target,
            clients <= fixed / 4 if scenario.promised else None,
        ),
    ]


def _share(ended: Sequence[_Ended], outcome: Outcome) -> float:
    return sum(one.outcome is outcome for one in ended) / len(ended)
