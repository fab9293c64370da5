"""When a canary is promoted, refused or left open, from numbers alone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.canary.e_values import Tally, against_good, against_worse, pairs_until
from tidegate_validation.canary.judgement import CanaryResult, judge
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule

RULE = CanaryRule(within_seconds=10.0)
GOOD = CanaryNumbers(shadowed=600, compared=600, max_difference=0.4, primary_latency_us=500.0, shadow_latency_us=900.0)


def result(numbers: CanaryNumbers, rule: CanaryRule = RULE) -> CanaryResult:
    return judge("m:2", numbers, rule)


def test_enough_good_answers_pass_however_much_they_differ() -> None:
    passed = result(GOOD)
    assert passed.outcome is Outcome.PASS
    assert passed.allowed
    assert "600 shadowed requests" in passed.sentence
    assert "sure to 95 %" in passed.sentence
    assert "0.4" in passed.sentence


def test_no_traffic_at_all_is_inconclusive_and_says_what_to_do() -> None:
    empty = result(CanaryNumbers(shadowed=7))
    assert empty.outcome is Outcome.INCONCLUSIVE
    assert not empty.allowed
    assert "7 requests were shadowed" in empty.sentence
    assert "send traffic" in empty.sentence


def test_what_is_missing_is_said_and_is_enough_when_it_came() -> None:
    open_yet = result(replace(GOOD, compared=150))
    assert open_yet.outcome is Outcome.INCONCLUSIVE
    faults = open_yet.checks[0]
    assert faults.check == "faults"
    assert faults.more_pairs is not None
    assert f"about {faults.more_pairs} more" in open_yet.sentence
    assert result(replace(GOOD, compared=150 + faults.more_pairs)).outcome is Outcome.PASS
    assert result(replace(GOOD, compared=149 + faults.more_pairs)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (replace(GOOD, compared=12, errors=12), "12 of 12 compared requests with an error"),
        (replace(GOOD, compared=30, not_finite=10), "10 of 30 compared requests with NaN or infinity"),
        (
            replace(GOOD, compared=40, slow=40, shadow_latency_us=80_000.0),
            "80.0 ms in the median where the serving version took 0.5 ms",
        ),
    ],
)
def test_errors_nonsense_and_slowness_fail_as_soon_as_they_are_sure(numbers: CanaryNumbers, words: str) -> None:
    failed = result(numbers)
    assert failed.outcome is Outcome.FAIL
    assert failed.decided
    assert words in failed.sentence


def test_one_error_is_not_yet_a_refusal_nor_a_promotion() -> None:
    assert result(replace(GOOD, compared=20, errors=1)).outcome is Outcome.INCONCLUSIVE


def test_faults_of_the_serving_version_are_held_against_neither() -> None:
    noisy = replace(GOOD, compared=12_000, errors=240, primary_faults=240)
    assert result(noisy).outcome is Outcome.PASS
    assert result(replace(noisy, primary_faults=0)).outcome is Outcome.FAIL


def test_disagreement_is_judged_where_the_rule_bounds_it() -> None:
    differing = replace(GOOD, disagreements=60)
    assert result(differing).outcome is Outcome.PASS
    assert result(differing, replace(RULE, max_difference=0.3)).outcome is Outcome.FAIL
    bounded = replace(RULE, max_disagreement=0.2)
    assert result(differing, bounded).outcome is Outcome.PASS
    assert "disagrees" in result(differing, replace(RULE, max_disagreement=0.05)).sentence


def test_a_canary_at_the_margin_is_told_that_no_traffic_promotes_it() -> None:
    stuck = result(replace(GOOD, compared=1000, errors=12))
    assert stuck.outcome is Outcome.INCONCLUSIVE
    assert "no number of answers" in stuck.sentence


def test_a_canary_needs_its_least_number_of_pairs() -> None:
    rule = replace(RULE, pairs=700)
    waiting = result(GOOD, rule)
    assert waiting.outcome is Outcome.INCONCLUSIVE
    assert "600 of at least 700" in waiting.sentence


def test_the_result_is_json_with_its_evidence() -> None:
    document = json.loads(json.dumps(result(replace(GOOD, max_difference=float("inf"))).to_dict()))
    assert document["format"] == "tidegate.canary/1"
    assert document["max_difference"] is None
    assert [check["check"] for check in document["checks"]] == ["faults", "slowness"]
    assert all(check["promote"] >= check["promote_needs"] for check in document["checks"])


@pytest.mark.parametrize(("worse", "better"), [(0.05, 0.0), (0.10, 0.05), (0.30, 0.25)])
def test_looking_after_every_pair_promotes_too_bad_a_canary_in_at_most_one_of_twenty(
    worse: float, better: float
) -> None:
    assert rate_of_crossing(worse, better, 0.05, against_worse) <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize(("worse", "better"), [(0.0, 0.0), (0.05, 0.0), (0.10, 0.05), (0.2, 0.2)])
def test_looking_after_every_pair_refuses_a_good_canary_in_at_most_one_of_twenty(worse: float, better: float) -> None:
    assert rate_of_crossing(worse, better, 0.05, against_good) <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 200)


def rate_of_crossing(worse: float, better: float, margin: float, evidence: object) -> float:
    """The share of 200 sequences of 1,000 pairs in which the evidence ever reaches 20."""
    assert callable(evidence)
    random = np.random.default_rng(11)
    crossed = 0
    for _ in range(200):
        draws = random.random(1000)
        worse_yet, better_yet = np.cumsum(draws < worse), np.cumsum(draws > 1.0 - better)
        looks = range(0, 1000, 25)
        tallies = (
            Tally(int(worse_yet[n]), int(n + 1 - worse_yet[n] - better_yet[n]), int(better_yet[n])) for n in looks
        )
        crossed += any(evidence(tally, margin) >= np.log(20) for tally in tallies)
    return crossed / 200


def test_evidence_adds_up_and_grows_with_what_it_speaks_for() -> None:
    assert against_worse(Tally(), 0.1) == pytest.approx(0.0)
    assert against_worse(Tally(0, 200, 0), 0.05) > against_worse(Tally(1, 199, 0), 0.05)
    assert against_good(Tally(20, 180, 0), 0.05) > against_good(Tally(15, 185, 0), 0.05)
    assert against_good(Tally(20, 180, 0, signed=False), 0.05) > against_good(Tally(20, 180, 0), 0.05)


def test_pairs_until_is_where_the_evidence_arrives() -> None:
    needed = float(np.log(20))
    until = pairs_until(Tally(1, 99, 0), 0.05, needed)
    assert until is not None
    assert against_worse(Tally(1, 99, 0).scaled(until), 0.05) >= needed
    assert against_worse(Tally(1, 99, 0).scaled(until - 1), 0.05) < needed
    assert pairs_until(Tally(10, 90, 0), 0.05, needed) is None


def test_a_rule_reads_the_strings_that_templates_make() -> None:
    rule = CanaryRule.from_dict({"pairs": "500", "fraction": "0.25", "max_difference": ""})
    assert rule == CanaryRule(pairs=500, fraction=0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pair": 5}, "unknown key 'pair': did you mean pairs"),
        ({"pairs": "many"}, "pairs is 'many': use a whole number"),
        ({"fraction": 0}, "fraction"),
        ({"pairs": 0}, "pairs"),
        ({"within_seconds": -1}, "within_seconds"),
        ({"max_error_share": 0}, "max_error_share is 0.0: use a share"),
        ({"error_rate": 0.7}, "error_rate"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_by_name(given: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        CanaryRule.from_dict(given)
