"""Thresholds of a policy mean what they mean in TensorFlow Model Analysis, or are refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.validation.quality.judged import named
from tests.validation.quality.shops import two_shops

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.policy import Policy
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.judgement.thresholds import judge_change, judge_thresholds, judge_value
from tidegate_validation.quality.rule import QualityRule, Threshold
from tidegate_validation.quality.slices.partitions import partitions_of
from tidegate_validation.statistics.jackknife import Estimate


def outcomes(*thresholds: Threshold, noise: float = 0.3, baseline: bool = True) -> list[tuple[str, Outcome]]:
    held, mine, theirs = two_shops(noise)
    partitions = partitions_of(held.table, held.evaluation, ["shop"])
    rule = QualityRule(thresholds=thresholds)
    found = judge_thresholds(held.evaluation, mine, theirs if baseline else None, partitions, rule)
    return [(one.subject, one.outcome) for one in found]


@pytest.mark.parametrize(
    ("threshold", "outcome"),
    [
        (Threshold("auc", lower=0.7), Outcome.PASS),
        (Threshold("auc", lower=0.95), Outcome.FAIL),
        (Threshold("AUC", upper=0.6), Outcome.FAIL),
        (Threshold("AUC", lower=0.7, upper=0.9), Outcome.PASS),
        (Threshold("binary_crossentropy", upper=0.6), Outcome.PASS),
        (Threshold("AUC", absolute=-0.02, direction="HIGHER_IS_BETTER"), Outcome.PASS),
        (Threshold("AUC", absolute=0.05, direction="HIGHER_IS_BETTER"), Outcome.FAIL),
        (Threshold("AUC", absolute=0.05, direction="LOWER_IS_BETTER"), Outcome.PASS),
        (Threshold("AUC", relative=-0.02, direction="HIGHER_IS_BETTER"), Outcome.PASS),
        (Threshold("log loss", relative=0.05, direction="LOWER_IS_BETTER"), Outcome.PASS),
        (Threshold("log loss", relative=-0.3, direction="LOWER_IS_BETTER"), Outcome.FAIL),
        (Threshold("log loss", absolute=0.2, direction="LOWER_IS_BETTER"), Outcome.PASS),
    ],
)
def test_thresholds_mean_what_they_mean_in_tensorflow_model_analysis(threshold: Threshold, outcome: Outcome) -> None:
    assert outcomes(threshold) == [(f"all examples: {threshold.metric}", outcome)]
    assert outcomes(replace(threshold, point_estimate=True)) == [(f"all examples: {threshold.metric}", outcome)]


def test_a_limit_inside_the_interval_is_open_unless_point_estimates_are_asked_for() -> None:
    near = Estimate(0.75, 0.01, 39)
    for limit, point in ((0.745, Outcome.PASS), (0.755, Outcome.FAIL), (0.75, Outcome.PASS)):
        assert judge_value(Threshold("AUC", lower=limit), near, 0.05) is Outcome.INCONCLUSIVE
        assert judge_value(Threshold("AUC", lower=limit, point_estimate=True), near, 0.05) is point
    nothing = Estimate(float("nan"), 0.01, 39)
    for exact in (False, True):
        assert judge_value(Threshold("AUC", lower=0.1, point_estimate=exact), nothing, 0.05) is Outcome.FAIL
    falling = Threshold("AUC", absolute=0.0, direction="HIGHER_IS_BETTER")
    assert judge_change(falling, -0.01, Estimate(-0.05, 0.01, 39), 0.05) is Outcome.FAIL
    assert judge_change(falling, -0.01, Estimate(0.05, 0.01, 39), 0.05) is Outcome.PASS


def test_a_loss_that_grows_is_a_positive_change() -> None:
    grown = Threshold("log loss", absolute=0.02, direction="LOWER_IS_BETTER")
    assert outcomes(grown, noise=1.5) == [("all examples: log loss", Outcome.FAIL)]
    shares = Threshold("log loss", relative=0.02, direction="LOWER_IS_BETTER")
    assert outcomes(shares, noise=1.5) == [("all examples: log loss", Outcome.FAIL)]


def test_slices_are_named_all_or_missed() -> None:
    assert outcomes(Threshold("AUC", slice="shop=web", lower=0.7)) == [("shop=web: AUC", Outcome.PASS)]
    assert {subject for subject, _ in outcomes(Threshold("AUC", slice="*", lower=0.7))} == {
        "shop=web: AUC",
        "shop=north: AUC",
    }
    assert outcomes(Threshold("AUC", slice="shop=mars", lower=0.7)) == [("shop=mars", Outcome.FAIL)]
    assert outcomes(Threshold("ndcg", lower=0.7)) == [("all examples", Outcome.FAIL)]


def test_without_a_baseline_changes_are_left_out_and_values_are_not() -> None:
    change = Threshold("AUC", absolute=0.5, direction="HIGHER_IS_BETTER")
    assert outcomes(change, baseline=False) == []
    assert outcomes(replace(change, lower=0.95), baseline=False) == [("all examples: AUC", Outcome.FAIL)]
    held, mine, _ = two_shops()
    found = judge_scores(ScoredExamples(held, mine, None, ("shop",)), QualityRule(thresholds=(change,)))
    assert "1 thresholds on changes are left out" in named(found, "first version").sentence
    assert named(found, "first version").subject == "RUBBER-STAMP"


def test_a_policy_file_holds_thresholds_slices_and_metrics(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        """
[quality]
metrics = ["log loss"]
crosses = ["shop*age"]

[quality.sql]
web = "shop = 'web'"

[[quality.thresholds]]
metric = "auc"
slice = "web"
lower = 0.7

[[quality.thresholds]]
metric = "auc"
absolute = -1
direction = "HIGHER_IS_BETTER"
"""
    )
    rule = Policy.load(path).quality
    assert rule.thresholds[0] == Threshold("auc", slice="web", lower=0.7)
    assert rule.thresholds[1].absolute == -1.0
    assert rule.sql == {"web": "shop = 'web'"}
    assert Policy.load(path).digest() != Policy().digest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric = 'speed'\nlower = 1.0", "metric 'speed' is unknown"),
        ("metric = 'auc'\nabsolute = 1.0", "give it a direction"),
        ("metric = 'auc'\nabsolute = 1.0\ndirection = 'UP'", "neither HIGHER_IS_BETTER nor LOWER_IS_BETTER"),
        ("metric = 'auc'", "limits nothing"),
        ("metric = 'auc'\nlowest = 1.0", "thresholds number 1 has an unknown key 'lowest': did you mean lower\\?"),
        ("metric = 'auc'\nlower = 'a'", "thresholds number 1: lower is 'a': use a finite number"),
    ],
)
def test_a_threshold_that_cannot_be_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(f"[[quality.thresholds]]\n{text}\n")
    with pytest.raises(InvalidInput, match=message):
        Policy.load(path)
