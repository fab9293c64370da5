"""When a canary passes, from numbers alone, and when it stops waiting, on a clock moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tidegate_operators.steps.canary import wait_for_numbers
from tidegate_operators.steps.canary_rule import CanaryNumbers, CanaryRule, judge
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.verdict import Outcome

RULE = CanaryRule(pairs=100, within_seconds=10.0)
GOOD = CanaryNumbers(teed=120, compared=110, max_difference=0.4, primary_latency_us=500.0, tee_latency_us=900.0)


class Clock:
    """Seconds that pass only when somebody pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def outcome(numbers: CanaryNumbers, rule: CanaryRule = RULE) -> Outcome:
    return judge("m:2", numbers, rule).outcome


def test_enough_good_answers_pass_however_much_they_differ() -> None:
    result = judge("m:2", GOOD, RULE)
    assert result.outcome is Outcome.PASS
    assert result.allowed
    assert "110 teed examples" in result.sentence
    assert "0.4" in result.sentence


def test_too_few_answers_are_inconclusive_and_do_not_allow() -> None:
    result = judge("m:2", replace(GOOD, compared=99), RULE)
    assert result.outcome is Outcome.INCONCLUSIVE
    assert not result.allowed
    assert "99 of 100" in result.sentence


def test_no_traffic_at_all_is_inconclusive() -> None:
    assert outcome(CanaryNumbers()) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (replace(GOOD, errors=1), "1 of 120 teed examples with an error"),
        (replace(GOOD, not_finite=3), "3 of 110 compared examples with NaN or infinity"),
        (replace(GOOD, tee_latency_us=80_000.0), "took 80.0 ms in the median where the serving version took 0.5 ms"),
    ],
)
def test_errors_nonsense_and_slowness_fail(numbers: CanaryNumbers, words: str) -> None:
    result = judge("m:2", numbers, RULE)
    assert result.outcome is Outcome.FAIL
    assert words in result.sentence


def test_a_fault_outweighs_too_few_answers() -> None:
    assert outcome(CanaryNumbers(teed=5, errors=5)) is Outcome.FAIL


def test_a_rule_may_tolerate_errors_and_bound_the_difference() -> None:
    assert outcome(replace(GOOD, errors=1), replace(RULE, max_error_share=0.01)) is Outcome.PASS
    assert outcome(replace(GOOD, errors=2), replace(RULE, max_error_share=0.01)) is Outcome.FAIL
    assert outcome(GOOD, replace(RULE, max_difference=0.3)) is Outcome.FAIL
    assert outcome(GOOD, replace(RULE, max_difference=0.4)) is Outcome.PASS


def test_waiting_ends_as_soon_as_there_are_enough_answers() -> None:
    clock = Clock()
    growing: Iterator[CanaryNumbers] = iter(replace(GOOD, compared=count) for count in (0, 40, 99, 100, 200))
    numbers = wait_for_numbers(lambda: next(growing), RULE, clock, clock.pause)
    assert numbers.compared == 100
    assert 0.0 < clock.now < RULE.within_seconds


def test_waiting_ends_when_the_time_is_over_and_looks_once_more_at_the_end() -> None:
    clock = Clock()
    seen: list[float] = []

    def read() -> CanaryNumbers:
        seen.append(clock.now)
        return CanaryNumbers(compared=7)

    assert wait_for_numbers(read, RULE, clock, clock.pause).compared == 7
    assert seen[-1] == RULE.within_seconds


def test_waiting_ends_at_once_on_an_error_that_the_rule_does_not_tolerate() -> None:
    clock = Clock()
    wait_for_numbers(lambda: CanaryNumbers(teed=1, errors=1), RULE, clock, clock.pause)
    assert clock.now == 0.0


def test_a_rule_reads_the_strings_that_templates_make() -> None:
    rule = CanaryRule.from_dict({"pairs": "500", "fraction": "0.25", "max_difference": ""})
    assert rule == CanaryRule(pairs=500, fraction=0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pair": 5}, "no pair"),
        ({"pairs": "many"}, "no number"),
        ({"fraction": 0}, "fraction"),
        ({"pairs": 0}, "pairs"),
        ({"within_seconds": -1}, "within_seconds"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(given: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        CanaryRule.from_dict(given)
