"""The quality gate's metrics against scikit-learn's and against plain definitions, and their jackknife replicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as known
from sklearn.linear_model import LogisticRegression
from tests.validation.quality.samples import ROWS, many, numbers, queries, two

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import Evaluation, MetricOptions
from tidegate_validation.quality.metrics import ranking
from tidegate_validation.quality.metrics.auc import auc_replicates
from tidegate_validation.quality.metrics.calibration import recalibration
from tidegate_validation.quality.metrics.catalogue import METRICS, Metric, canonical, metrics_for
from tidegate_validation.quality.metrics.gains import Gain, gain_of, power, value_of
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import Estimate, Replicates


def metric(name: str, evaluation: Evaluation, scores: Floats) -> Metric:
    return next(one for one in metrics_for(evaluation, [scores]) if one.name == name)


def value(name: str, data: tuple[Evaluation, Floats]) -> float:
    return value_of(metric(name, *data), *data).value


TWO: dict[str, Callable[[Any, Any], float]] = {
    "AUC": known.roc_auc_score,
    "Brier score": known.brier_score_loss,
    "accuracy": lambda labels, scores: known.accuracy_score(labels, scores > 0.5),
    "balanced accuracy": lambda labels, scores: known.balanced_accuracy_score(labels, scores > 0.5),
    "F1": lambda labels, scores: known.f1_score(labels, scores > 0.5),
    "log loss": lambda labels, scores: known.log_loss(labels, np.clip(scores, 1e-7, 1 - 1e-7)),
}


MANY: dict[str, Callable[[Any, Any], float]] = {
    "AUC": lambda labels, scores: known.roc_auc_score(labels, scores[:, :4], multi_class="ovr"),
    "accuracy": lambda labels, scores: known.accuracy_score(labels, scores.argmax(axis=1)),
    "balanced accuracy": lambda labels, scores: known.balanced_accuracy_score(labels, scores.argmax(axis=1)),
    "macro F1": lambda labels, scores: known.f1_score(labels, scores.argmax(axis=1), average="macro"),
    "micro F1": lambda labels, scores: known.f1_score(labels, scores.argmax(axis=1), average="micro"),
    "log loss": lambda labels, scores: known.log_loss(labels, scores[:, :4]),
    "top-k accuracy": lambda labels, scores: known.top_k_accuracy_score(labels, scores[:, :4], k=3),
    "Brier score": lambda labels, scores: ((scores[:, :4] - np.eye(4)[labels.astype(int)]) ** 2).sum(axis=1).mean(),
}


NUMBERS: dict[str, Callable[[Any, Any], float]] = {
    "squared error": known.mean_squared_error,
    "absolute error": known.mean_absolute_error,
    "root mean squared error": known.root_mean_squared_error,
    "R²": known.r2_score,
    "quantile loss": lambda labels, scores: known.mean_pinball_loss(labels, scores, alpha=0.5),
}


@pytest.mark.parametrize(
    ("make", "name", "reference"),
    [
        (make, name, one)
        for make, table in ((two, TWO), (many, MANY), (numbers, NUMBERS))
        for name, one in table.items()
    ],
)
def test_a_metric_is_scikit_learns(
    make: Callable[[], tuple[Evaluation, Floats]], name: str, reference: Callable[[Any, Any], float]
) -> None:
    evaluation, scores = make()
    assert value(name, (evaluation, scores)) == pytest.approx(reference(evaluation.labels, scores), rel=1e-6)


@pytest.mark.parametrize("make", [two, many, numbers])
def test_replicates_are_the_metric_of_the_rows_that_are_left(make: Callable[[], tuple[Evaluation, Floats]]) -> None:
    evaluation, scores = make()
    tried = 0
    for one in METRICS:
        if one.whole is None or not one.fits(evaluation, [scores]) or one.name == "calibration error":
            continue
        made: Replicates = one.whole(evaluation, scores)
        for group in (0, 7, 39):
            rows = np.flatnonzero(evaluation.groups != group)
            again = one.whole(evaluation.take(rows), scores[rows])
            assert made.without[group] == pytest.approx(again.value, rel=1e-9), one.name
        tried += 1
    assert tried >= 2


@pytest.mark.parametrize(
    ("value", "amount", "change"),
    [
        (0.0714, "7.14 %", "+7.1 %"),
        (9.994, "999 %", "+999.4 %"),
        (9.996, "1,000 %", "+999.6 %"),
        (73.1, "7,310 %", "+7,310.0 %"),
    ],
)
def test_a_change_is_written_without_an_exponent_however_large(value: float, amount: str, change: str) -> None:
    gain = Gain("squared error", 1.0, 1.0, Estimate(value, 0.0, 9), relative=True)
    assert (gain.amount(value), gain.change(value)) == (amount, change)


def test_groups_without_rows_have_no_replicate() -> None:
    evaluation, scores = two()
    groups = np.where(evaluation.groups == 5, 6, evaluation.groups)
    made = auc_replicates(evaluation.labels == 1, scores, groups)
    assert np.isnan(made.without[5])
    assert made.value == pytest.approx(known.roc_auc_score(evaluation.labels, scores))
    assert made.estimate().freedom == 38


def test_calibration_error_and_slope_know_a_model_that_is_too_bold() -> None:
    random = np.random.default_rng(1)
    odds = random.normal(0, 1.5, 20_000)
    labels = (random.random(20_000) < 1 / (1 + np.exp(-odds))).astype(np.float64)
    evaluation = Evaluation("binary", labels, np.arange(20_000) % 40, ("0", "1"))
    honest, bold = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-2 * odds - 0.5))
    assert value("calibration error", (evaluation, honest)) < 0.02
    assert value("calibration error", (evaluation, bold)) > 0.08
    line = recalibration(evaluation, bold)
    assert line is not None
    fitted = LogisticRegression(C=1e9).fit((2 * odds + 0.5)[:, None], labels)
    assert line[0].value == pytest.approx(float(fitted.coef_[0, 0]), rel=1e-3)
    assert line[1].value == pytest.approx(float(fitted.intercept_[0]), rel=1e-2)
    assert 0.005 < line[0].error < 0.03
    assert recalibration(evaluation, np.full(20_000, 0.3)) is None


def test_rankings_are_measured_per_query() -> None:
    evaluation, scores = queries()
    labels, by_query = evaluation.labels.reshape(60, 20), scores.reshape(60, 20)
    wanted = known.ndcg_score(np.exp2(labels) - 1, by_query, k=10)
    assert value("NDCG", (evaluation, scores)) == pytest.approx(wanted)
    linear = replace(evaluation, options=MetricOptions(exponential=False, cutoff=5))
    assert value("NDCG", (linear, scores)) == pytest.approx(known.ndcg_score(labels, by_query, k=5))
    everything = replace(evaluation, options=MetricOptions(cutoff=20))
    precise = [known.average_precision_score(row > 0, one) for row, one in zip(labels, by_query, strict=True)]
    assert value("MAP", (everything, scores)) == pytest.approx(np.mean(precise))
    first = [
        1 / (1 + int(np.flatnonzero(row[np.argsort(-one)] > 0)[0])) for row, one in zip(labels, by_query, strict=True)
    ]
    assert value("MRR", (evaluation, scores)) == pytest.approx(np.mean(first))


def test_a_query_without_a_relevant_row_and_the_order_of_rows_count_for_nothing() -> None:
    evaluation, scores = queries()
    labels = evaluation.labels.copy()
    labels[:20] = 0
    without = replace(evaluation, labels=labels)
    rest = np.arange(20, 1200)
    assert value("NDCG", (without, scores)) == pytest.approx(value("NDCG", (evaluation.take(rest), scores[rest])))
    shuffled = np.random.default_rng(3).permutation(1200)
    assert value("MAP", (evaluation.take(shuffled), scores[shuffled])) == pytest.approx(
        value("MAP", (evaluation, scores))
    )
    best_first = np.lexsort((-evaluation.labels, np.arange(1200) // 20))
    lazy = value("NDCG", (evaluation.take(best_first), np.zeros(1200)))
    assert lazy == pytest.approx(value("NDCG", (evaluation, np.zeros(1200))), abs=0.08)
    assert lazy < 0.75


def test_relevances_that_have_no_gain_are_refused() -> None:
    with pytest.raises(InvalidInput, match="lowest relevance is -1"):
        ranking.check_relevances(np.array([-1.0, 2.0]), exponential=False)
    with pytest.raises(InvalidInput, match="exponential_gain = false"):
        ranking.check_relevances(np.array([0.0, 100.0]), exponential=True)
    ranking.check_relevances(np.array([0.0, 100.0]), exponential=False)


def test_a_gain_has_the_sign_of_better_and_the_unit_of_its_metric() -> None:
    evaluation, good = two()
    bad = np.clip(good + np.random.default_rng(2).normal(0, 0.3, ROWS), 0, 1)
    metrics = metrics_for(evaluation, [good, bad])
    assert {one.name for one in metrics} >= {"AUC", "Brier score", "log loss"}
    for one in metrics:
        gain = gain_of(one, evaluation, bad, good)
        assert gain.gain.value < 0, one.name
        assert gain.relative is (one.name in ("Brier score", "log loss"))
        change = (gain.candidate - gain.baseline) * (1 if one.higher else -1)
        assert gain.gain.value == pytest.approx(change / gain.baseline if gain.relative else change)


def test_paired_rows_and_groups_agree_where_rows_stand_alone() -> None:
    evaluation, scores = numbers()
    other = scores + np.random.default_rng(4).normal(0, 0.3, ROWS)
    one = metric("squared error", evaluation, scores)
    clustered = gain_of(one, evaluation, other, scores).gain
    paired = gain_of(one, replace(evaluation, clustered=False), other, scores).gain
    assert paired.value == pytest.approx(clustered.value)
    assert paired.error == pytest.approx(clustered.error, rel=0.35)
    assert clustered.freedom == 39
    assert paired.freedom == pytest.approx(ROWS / 3, rel=0.15)  # So many as alike would make up squares of a normal.


def test_power_is_highest_for_who_knows() -> None:
    for evaluation, scores in (two(), many(), numbers(), queries()):
        perfect = evaluation.labels
        if evaluation.task == "multiclass":
            perfect = np.eye(5)[evaluation.labels.astype(int)]
        assert power(evaluation, perfect).value == pytest.approx(1.0)
        assert power(evaluation, scores).value < 0.99


def test_metrics_are_known_by_the_names_of_tensorflow_model_analysis() -> None:
    assert canonical("auc") == "AUC"
    assert canonical("mean_squared_error") == "squared error"
    assert canonical("Brier score") == "Brier score"
    with pytest.raises(InvalidInput, match="metric 'speed' is unknown: use one of AUC"):
        canonical("speed")
