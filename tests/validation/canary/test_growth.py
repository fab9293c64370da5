"""How a canary's share of traffic grows, stays or steps back, from numbers alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.canary.growth import Move, Step, decide_growth, move
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

RULE = CanaryRule(mode=CanaryMode.TRAFFIC)
LABELLED = replace(RULE, labels="labels.parquet")
GOOD = CanaryNumbers(compared=4000, slow=1200, answered=4100)
DONE = Step(0, 60.0, 500)


def moved(numbers: CanaryNumbers, step: Step = DONE, rule: CanaryRule = RULE) -> Move:
    return move("m:2", numbers, step, rule)


def test_a_good_version_goes_from_share_to_share_and_passes_after_the_last() -> None:
    numbers = [moved(GOOD, replace(DONE, number=number)).number for number in range(3)]
    assert numbers == [1, 2, 3]
    last = moved(GOOD, replace(DONE, number=3)).result
    assert (last.outcome, last.numbers.share) == (Outcome.PASS, 1.0)
    assert "4,100 requests of clients, in the end 100.00 %" in last.sentence


@pytest.mark.parametrize("step", [Step(0, 9.0, 500), Step(0, 60.0, 99), Step(3, 9.0, 500), Step(3, 60.0, 99)])
def test_each_step_lasts_its_answers_and_its_time(step: Step) -> None:
    stays = moved(GOOD, step)
    assert (stays.number, stays.result.outcome) == (step.number, Outcome.INCONCLUSIVE)
    assert "a step needs 100 answers and 10 s" in stays.result.sentence


def test_each_growth_needs_more_evidence_than_the_one_before() -> None:
    def least(number: int) -> int:
        step = replace(DONE, number=number)
        return next(n for n in range(1, 4000) if moved(CanaryNumbers(compared=n), step).number > number)

    at = [least(number) for number in range(3)]
    assert at[0] < at[1] < at[2]
    assert least(2) == next(
        n for n in range(1, 4000) if all(check.promotes for check in moved(CanaryNumbers(compared=n)).result.checks)
    )


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (replace(GOOD, errors=200, primary_faults=20), "of 4,000 pairs it alone failed in 200"),
        (replace(GOOD, slow=2400, shadow_latency_us=9000.0), "2,400 of 4,000 answers took more than 20 % longer"),
        (replace(GOOD, labelled=900, wrong=120, primary_wrong=10), "of 900 labelled pairs it alone was wrong in 120"),
    ],
)
def test_what_is_worse_steps_back_with_the_reason(numbers: CanaryNumbers, words: str) -> None:
    back = moved(numbers, replace(DONE, number=2), LABELLED).result
    assert (back.outcome, back.numbers.share) == (Outcome.FAIL, 0.0)
    assert "stepped back at 25.00 % of the traffic" in back.sentence
    assert words in back.sentence


def test_what_breaks_only_under_the_whole_traffic_steps_back_too() -> None:
    alone = CanaryNumbers(compared=300, errors=60)
    back = moved(GOOD, Step(3, 60.0, 300, alone)).result
    assert back.outcome is Outcome.FAIL
    assert "of 300 pairs it alone failed in 60" in back.sentence


@pytest.mark.parametrize(
    ("numbers", "step", "words"),
    [
        (CanaryNumbers(answered=1), DONE, "with 1 answer and none to compare"),
        (CanaryNumbers(answered=1, compared=1), DONE, "in 1 pair, "),
        (GOOD, Step(0, 60.0, 0), "a step needs 1 answer and 10 s"),
    ],
)
def test_one_answer_is_one_in_words(numbers: CanaryNumbers, step: Step, words: str) -> None:
    assert words in moved(numbers, step, replace(RULE, step_rows=1)).result.sentence


def test_without_labels_there_is_no_word_of_quality_and_with_them_it_waits_for_them() -> None:
    assert [check.check for check in moved(GOOD).result.checks] == ["faults", "slowness"]
    waits = moved(GOOD, rule=LABELLED)
    assert waits.number == 0
    assert "not decided on quality" in waits.result.sentence
    assert moved(replace(GOOD, labelled=3000), rule=LABELLED).number == 1


def test_a_last_share_below_the_whole_needs_the_whole_evidence_to_pass() -> None:
    rule = replace(RULE, shares=(0.1, 0.5))
    assert moved(CanaryNumbers(compared=250), replace(DONE, number=1), rule).result.outcome is Outcome.INCONCLUSIVE
    assert moved(GOOD, replace(DONE, number=1), rule).result.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shares": [1.0]}, "shares are .1.0,.: let them grow"),
        ({"shares": [0.5, 0.25]}, "shares are"),
        ({"shares": []}, "shares are"),
        ({"step_seconds": -1}, "step_seconds -1"),
        ({"max_slowdown": -1}, "max_slowdown is -1"),
        ({"max_difference": 0.1}, "only mode shadow has"),
        ({"key": "x user"}, "key 'x user' cannot be a metadata key or header"),
        ({"mode": "both"}, "mode is 'both': use shadow, traffic"),
    ],
)
def test_a_rule_of_traffic_that_makes_no_sense_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        CanaryRule.from_dict({"mode": "traffic", **given})


def test_a_canary_has_a_minute_for_copies_and_an_hour_for_traffic_unless_the_rule_says_otherwise() -> None:
    assert (CanaryRule().seconds, RULE.seconds, replace(RULE, within_seconds=5.0).seconds) == (60.0, 3600.0, 5.0)


@pytest.mark.parametrize(("worse", "slow"), [(0.05, 0.4), (0.0, 0.5)])
def test_looking_all_the_time_promotes_what_is_worse_by_the_margin_in_at_most_one_of_twenty(
    worse: float, slow: float
) -> None:
    outcomes = simulated(worse, slow)
    assert outcomes.count(Outcome.PASS) / len(outcomes) <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 100)


def test_looking_all_the_time_refuses_an_equal_version_in_at_most_one_of_twenty_and_promotes_most() -> None:
    outcomes = simulated(0.0, 0.4)
    assert outcomes.count(Outcome.FAIL) / len(outcomes) <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 100)
    assert outcomes.count(Outcome.PASS) >= 95


def simulated(worse: float, slow: float) -> list[Outcome]:
    """How 100 canaries end that are looked at 60 times, 1,000 requests after another; both fail in 2 % of answers."""
    rule = replace(RULE, max_error_share=0.05, shares=(0.05, 0.25, 1.0))
    return [_one(rule, worse, slow, np.random.default_rng((7, seed))) for seed in range(100)]


def _one(rule: CanaryRule, worse: float, slow: float, random: np.random.Generator) -> Outcome:
    numbers, number = CanaryNumbers(), 0
    for _ in range(60):
        got = int(1000 * rule.shares[number])
        pairs = got if number < 2 else 0
        alone_worse, alone_better, _ = random.multinomial(pairs, (0.02 + worse, 0.02, 0.96 - worse))
        numbers = CanaryNumbers(
            compared=numbers.compared + pairs,
            errors=numbers.errors + int(alone_worse),
            primary_faults=numbers.primary_faults + int(alone_better),
            slow=numbers.slow + int(random.binomial(pairs, slow)),
        )
        grown = decide_growth(numbers, Step(number, 60.0, got + 100), rule)
        if grown.outcome is not Outcome.INCONCLUSIVE:
            return grown.outcome
        number = grown.number
    return Outcome.INCONCLUSIVE
