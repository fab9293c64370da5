"""What a policy can ask of the quality gate: thresholds as in TensorFlow Model Analysis, deciding metrics, history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation.judged import failing, named

from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict, load_private_key, make_keys, write_verdict
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.policy import Policy
from tidegate_validation.quality.bounds import judge_thresholds
from tidegate_validation.quality.compared import Gain
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.finding import METRIC, Basis, compared, first_version
from tidegate_validation.quality.held_out import HeldOut
from tidegate_validation.quality.history import against_history
from tidegate_validation.quality.judging import Scored, judge_scores
from tidegate_validation.quality.metrics import Estimate, Floats
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slice_sets import partitions_of
from tidegate_validation.quality.thresholds import Threshold, judge_change, judge_value

ROWS = 4000


def world(noise: float = 0.3) -> tuple[HeldOut, Floats, Floats]:
    """Two shops, and the probabilities of two models of which the first has that much more noise."""
    random = np.random.default_rng(0)
    truth = random.normal(0, 1.5, ROWS)
    labels = (random.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(np.float64)
    table = pa.table({"shop": random.choice(["web", "north"], ROWS)})
    mine, theirs = (1 / (1 + np.exp(-(truth + random.normal(0, spread, ROWS)))) for spread in (noise, 0.3))
    evaluation = Evaluation("binary", labels, np.arange(ROWS) % 40, ("0", "1"), clustered=False)
    return HeldOut(table, evaluation, "40 random buckets"), mine, theirs


def outcomes(*thresholds: Threshold, noise: float = 0.3, baseline: bool = True) -> list[tuple[str, Outcome]]:
    held, mine, theirs = world(noise)
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
    held, mine, _ = world()
    found = judge_scores(Scored(held, mine, None, ("shop",)), QualityRule(thresholds=(change,)))
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


def test_the_policy_says_which_metrics_decide() -> None:
    held, mine, theirs = world(noise=1.5)
    found = judge_scores(Scored(held, mine, theirs, ()), QualityRule(metrics=("accuracy",)))
    assert ("accuracy", "all examples") in failing(found)
    assert not any(one.check == "AUC" for one in found)
    assert named(found, METRIC, "log loss").outcome is Outcome.WARN
    missing = judge_scores(Scored(held, mine, theirs, ()), QualityRule(metrics=("ndcg",)))
    assert ("NDCG", "all examples") in failing(missing)


def test_churn_beyond_the_policys_limit_fails() -> None:
    held, mine, theirs = world(noise=1.5)
    free = named(judge_scores(Scored(held, mine, theirs, ()), QualityRule()), "churn")
    assert free.outcome is Outcome.PASS
    assert free.number == pytest.approx(np.mean((mine > 0.5) != (theirs > 0.5)))
    assert ("churn", "predictions") in failing(
        judge_scores(Scored(held, mine, theirs, ()), QualityRule(churn_limit=0.1))
    )


def test_few_examples_say_what_they_could_have_shown_and_how_many_are_needed() -> None:
    held, mine, theirs = world(noise=0.5)
    few = held.take(np.arange(250))
    found = named(judge_scores(Scored(few, mine[:250], theirs[:250], ()), QualityRule()), "AUC")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.smallest_detectable is not None
    assert found.rows_needed is not None
    assert found.smallest_detectable > 0.01
    assert 500 < found.rows_needed < 30_000
    assert f"hold out about {found.rows_needed:,} examples" in found.sentence


@pytest.mark.parametrize("lost", [0.0, 0.005, 0.0099, 0.012])
def test_the_examples_that_are_needed_are_always_more_than_there_are(lost: float) -> None:
    gain = Gain("AUC", 0.8 - lost, 0.8, Estimate(-lost, 0.004, 39), relative=False)
    basis = Basis(3000, "40 random buckets", "examples")
    needed = compared(gain, Outcome.INCONCLUSIVE, 0.5, basis, QualityRule()).rows_needed
    assert needed is not None
    assert 3600 <= needed < 500_000


def test_a_first_version_that_cannot_be_told_from_chance_says_what_would_tell() -> None:
    evaluation = world()[0].evaluation
    found = first_version(evaluation, Estimate(0.56, 0.03, 39), 0.55, Outcome.INCONCLUSIVE, "40 buckets", 0.05)
    assert found.smallest_detectable is not None
    assert found.rows_needed is not None
    assert found.rows_needed > ROWS
    assert found.sentence.endswith(f"hold out about {found.rows_needed:,} examples")


def metric(value: float, name: str = "AUC", error: float = 0.001) -> Finding:
    return Finding(METRIC, name, Outcome.PASS, f"{name} {value}", value, (value - 2 * error, value + 2 * error))


def verdict_file(root: Path, version: int, findings: Sequence[Finding], *, allowed: bool = True) -> None:
    result = GateResult("quality", Outcome.PASS, "fine", tuple(findings))
    verdict = Verdict(
        id=ServableId("m", version),
        manifest_digest="a" * 64,
        outcome=Outcome.PASS,
        allowed=allowed,
        sentence="made for a test",
        gates=(result,),
        first=True,
        baseline=None,
        data_digest="0" * 64,
        config_digest="0" * 64,
        tool_version="test",
        issued_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-02-01T00:00:00+00:00",
        denied_by=() if allowed else ("quality",),
    )
    if not (root / "key").exists():
        make_keys(root / "key", root / "pub")
    (root / "m").mkdir(exist_ok=True)
    path = verdict_path(root / "m" / str(version))
    path.unlink(missing_ok=True)
    write_verdict(verdict, path, load_private_key(root / "key"))


def judged(root: Path, version: int, value: float) -> list[Finding]:
    return against_history(root / "m" / str(version), [metric(value)], QualityRule())


def test_an_outlier_among_its_predecessors_is_said_to_be_one(tmp_path: Path) -> None:
    for version, value in enumerate((0.81, 0.82, 0.80, 0.815, 0.805), 1):
        verdict_file(tmp_path, version, [metric(value)])
    (usual,) = judged(tmp_path, 6, 0.82)
    assert usual.outcome is Outcome.PASS
    (worse,) = judged(tmp_path, 6, 0.70)
    assert (worse.outcome, worse.subject) == (Outcome.WARN, "AUC")
    assert "an outlier among the 5 before it: they reach 0.8 to 0.82" in worse.sentence
    (better,) = judged(tmp_path, 6, 0.95)
    assert better.outcome is Outcome.WARN
    assert judged(tmp_path, 5, 0.70) == []


def test_refused_versions_later_ones_and_unreadable_verdicts_are_no_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version in range(1, 5):
        verdict_file(tmp_path, version, [metric(0.8 + version / 1000)])
    verdict_file(tmp_path, 5, [metric(0.2)], allowed=False)
    verdict_file(tmp_path, 9, [metric(0.81)])
    assert judged(tmp_path, 7, 0.5) == []
    verdict_path(tmp_path / "m" / "6").write_text("not json")
    assert judged(tmp_path, 7, 0.5) == []
    assert "6.verdict.json is left out of the history" in caplog.text
    verdict_file(tmp_path, 6, [metric(0.81)])
    assert [one.outcome for one in judged(tmp_path, 7, 0.5)] == [Outcome.WARN]


def test_history_calls_one_version_in_a_hundred_an_outlier(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    called = 0
    for trial in range(50):
        root = tmp_path / str(trial)
        for version, value in enumerate(random.normal(0.8, 0.02, 6), 1):
            verdict_file(root, version, [metric(float(value))])
        called += judged(root, 7, float(random.normal(0.8, 0.02)))[0].outcome is Outcome.WARN
    assert called <= 3
