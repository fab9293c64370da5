"""How often equal models are called unequal and worse ones worse; which metrics decide, and what few examples say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.validation.quality.judged import failing, named
from tests.validation.quality.shops import ROWS, two_shops

from tidegate_serving.admission import Outcome
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.judgement.finding import METRIC, Basis, deciding_metric, first_version, metric_value
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.metrics.gains import Gain, compare_models, power
from tidegate_validation.quality.rule import QualityRule, not_inferior
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import Estimate

RULE = QualityRule()


def models(seed: int, noise: float, rows: int = 3000) -> tuple[Evaluation, Floats, Floats]:
    """Labels with the scores of two models of the truth, the second with more noise."""
    random = np.random.default_rng(seed)
    truth = random.normal(0, 1.2, rows)
    labels = (random.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.float64)

    def scores(spread: float) -> Floats:
        return np.asarray(1 / (1 + np.exp(-(truth + random.normal(0, spread, rows)))))

    return Evaluation("binary", labels, np.arange(rows) % 40), scores(0.25), scores(noise)


def outcomes(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> set[Outcome]:
    margins = {"AUC": RULE.margin, "Brier score": RULE.loss_margin}
    gains = compare_models(evaluation, candidate, baseline)
    return {not_inferior(one.gain, margins[one.metric], RULE.alpha) for one in gains if one.metric in margins}


def test_equal_models_never_fail_and_mostly_pass() -> None:
    found = [outcomes(*models(seed, 0.25)) for seed in range(40)]
    assert sum(Outcome.FAIL in one for one in found) <= 1
    assert sum(one == {Outcome.PASS} for one in found) >= 25


def test_a_worse_model_fails() -> None:
    for seed in range(10):
        evaluation, good, bad = models(seed, 1.5)
        assert Outcome.FAIL in outcomes(evaluation, bad, good)
        assert outcomes(evaluation, good, bad) == {Outcome.PASS}


def test_few_examples_are_inconclusive() -> None:
    found = [Outcome.INCONCLUSIVE in outcomes(*models(seed, 0.25, rows=220)) for seed in range(10)]
    assert sum(found) >= 6


def test_the_interval_that_is_told_says_what_was_decided() -> None:
    told = [one for seed in range(60) for one in _deciding(seed, 0.25 + 0.03 * (seed % 20))]
    assert {outcome for outcome, _, _, _ in told} == {Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.FAIL}
    for outcome, low, high, limit in told:
        expected = Outcome.FAIL if high < limit else Outcome.PASS if low > limit else Outcome.INCONCLUSIVE
        assert outcome is expected, (low, high, limit)


def _deciding(seed: int, noise: float) -> Iterator[tuple[Outcome, float, float, float]]:
    evaluation, good, bad = models(seed, noise)
    held = HeldOut(pa.table({"row": range(len(evaluation.labels))}), evaluation, "40 days")
    for one in judge_scores(ScoredExamples(held, bad, good, ()), RULE):
        if one.check in ("AUC", "Brier score"):
            assert one.interval is not None
            assert one.limit is not None
            yield one.outcome, *one.interval, one.limit


def test_regression_is_compared_by_its_errors() -> None:
    random = np.random.default_rng(3)
    labels = random.normal(10, 3, 4000)
    evaluation = Evaluation("regression", labels, np.arange(4000) % 40)
    good, bad = labels + random.normal(0, 1, 4000), labels + random.normal(0, 1.3, 4000)
    gains = {one.metric: one.gain for one in compare_models(evaluation, bad, good)}
    assert set(gains) == {"squared error", "absolute error", "root mean squared error", "R²", "quantile loss"}
    assert gains["squared error"].value == pytest.approx(1 - 1.69, abs=0.1)
    assert all(not_inferior(gain, RULE.loss_margin, RULE.alpha) is Outcome.FAIL for gain in gains.values())
    assert power(evaluation, good).value == pytest.approx(1 - 1 / 9, abs=0.02)


def test_the_policy_says_which_metrics_decide() -> None:
    held, mine, theirs = two_shops(noise=1.5)
    found = judge_scores(ScoredExamples(held, mine, theirs, ()), QualityRule(metrics=("accuracy",)))
    assert ("accuracy", "all examples") in failing(found)
    assert not any(one.check == "AUC" for one in found)
    assert named(found, METRIC, "log loss").outcome is Outcome.WARN
    missing = judge_scores(ScoredExamples(held, mine, theirs, ()), QualityRule(metrics=("ndcg",)))
    assert ("NDCG", "all examples") in failing(missing)


def test_churn_beyond_the_policys_limit_fails() -> None:
    held, mine, theirs = two_shops(noise=1.5)
    free = named(judge_scores(ScoredExamples(held, mine, theirs, ()), QualityRule()), "churn")
    assert free.outcome is Outcome.PASS
    assert free.number == pytest.approx(np.mean((mine > 0.5) != (theirs > 0.5)))
    assert ("churn", "predictions") in failing(
        judge_scores(ScoredExamples(held, mine, theirs, ()), QualityRule(churn_limit=0.1))
    )


def test_few_examples_say_what_they_could_have_shown_and_how_many_are_needed() -> None:
    held, mine, theirs = two_shops(noise=0.5)
    few = held.take(np.arange(250))
    found = named(judge_scores(ScoredExamples(few, mine[:250], theirs[:250], ()), QualityRule()), "AUC")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.smallest_detectable is not None
    assert found.rows_needed is not None
    assert found.smallest_detectable > 0.01
    assert 500 < found.rows_needed < 30_000
    assert f"hold out about {found.rows_needed:,} examples" in found.sentence


@pytest.mark.parametrize("lost", [0.0, 0.005, 0.0099, 0.012])
def test_the_examples_that_are_needed_are_always_more_than_there_are(lost: float) -> None:
    gain = Gain("AUC", 0.8 - lost, 0.8, Estimate(-lost, 0.004, 39), relative=False, margin=0.01)
    basis = Basis(3000, "40 random buckets", "examples")
    bounds = gain.gain.interval(RULE.alpha)
    needed = deciding_metric(gain, bounds, Outcome.INCONCLUSIVE, 0.5, basis, RULE).rows_needed
    assert needed is not None
    assert 3600 <= needed < 500_000


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((-0.01, 0.02), "(gain +0.0 %, between -1.0 % and +2.0 %; "),
        ((-np.inf, 0.02), "(gain +0.0 %, +2.0 % or less; "),
        ((-0.01, np.inf), "(gain +0.0 %, -1.0 % or more; "),
        ((-np.inf, np.inf), "(gain +0.0 %, of which this data gives no bounds; "),
    ],
)
def test_bounds_that_are_infinite_are_told_as_none(bounds: tuple[float, float], words: str) -> None:
    gain = Gain("cost", 2.0, 2.0, Estimate(0.0, np.inf, 1), relative=True, margin=0.01)
    found = deciding_metric(gain, bounds, Outcome.INCONCLUSIVE, 1.0, Basis(300, "2 days", "examples"), RULE)
    assert words in found.sentence
    assert "inf" not in found.sentence


def test_a_first_version_that_cannot_be_told_from_chance_says_what_would_tell() -> None:
    evaluation = two_shops()[0].evaluation
    found = first_version(evaluation, Estimate(0.56, 0.03, 39), 0.55, Outcome.INCONCLUSIVE, "40 buckets", 0.05)
    assert found.smallest_detectable is not None
    assert found.rows_needed is not None
    assert found.rows_needed > ROWS
    assert found.sentence.endswith(f"hold out about {found.rows_needed:,} examples")


def test_values_without_bounds_are_told_so() -> None:
    """Where one group alone makes up a value."""
    evaluation, lone = two_shops()[0].evaluation, Estimate(0.56, float("inf"), 1)
    found = first_version(evaluation, lone, 0.55, Outcome.INCONCLUSIVE, "1 day", 0.05)
    assert found.sentence.startswith("a first version: AUC 0.560 (this data gives no bounds) cannot be told from 0.55")
    assert metric_value("AUC", lone, None, None, QualityRule()).sentence == "AUC 0.56 (this data gives no bounds)"


@pytest.mark.parametrize(("shift", "before", "warned"), [(-0.6, 0.0, True), (0.6, 0.0, True), (-0.6, -0.6, False)])
def test_probabilities_that_became_too_low_or_too_high_on_the_whole_are_told_of(
    shift: float, before: float, warned: bool
) -> None:
    """They rank as before, and cost little in squares."""
    evaluation, mine, theirs = models(3, 0.25)
    held = HeldOut(pa.table({"row": np.arange(len(mine))}), evaluation, "40 random buckets")

    def moved(scores: Floats, by: float) -> Floats:
        return np.asarray(1 / (1 + np.exp(-np.log(scores / (1 - scores)) - by)))

    found = judge_scores(ScoredExamples(held, moved(mine, shift), moved(theirs, before)), RULE)
    told = [one.outcome for one in found if (one.check, one.subject) == ("calibration", "mean")]
    assert told == ([Outcome.WARN] if warned else [])


def test_sound_retrains_are_calibrated_on_the_whole() -> None:
    found = []
    for seed in range(40):
        evaluation, mine, theirs = models(seed, 0.5, rows=600)
        held = HeldOut(pa.table({"row": np.arange(len(mine))}), evaluation, "40 random buckets")
        found += judge_scores(ScoredExamples(held, mine, theirs), RULE)
    assert [one.sentence for one in found if (one.check, one.subject) == ("calibration", "mean")] == []
